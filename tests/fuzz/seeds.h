#ifndef LONGWAVE_TESTS_FUZZ_SEEDS_H_
#define LONGWAVE_TESTS_FUZZ_SEEDS_H_

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>

namespace longwave {

// The parts of write_fuzz_seeds: each writes one file an input to FOLDER/<target>/seed-*, and says
// whether all could be written.
bool WriteWireSeeds(const std::filesystem::path& corpora);
bool WriteStoreSeeds(const std::filesystem::path& corpora);
bool WriteCoordinatorSeeds(const std::filesystem::path& corpora);
bool WriteCheckpointSeeds(const std::filesystem::path& corpora);

inline bool WriteSeed(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_FUZZ_SEEDS_H_
