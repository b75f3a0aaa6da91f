#ifndef LONGWAVE_TESTS_FUZZ_SEEDS_H_
#define LONGWAVE_TESTS_FUZZ_SEEDS_H_

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>

namespace longwave {

// Shared by the programs that write the seeds of the fuzz targets' corpora.

inline bool WriteSeed(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

// A main function: `write` gets the folder of the corpora, the only argument, and says whether all
// could be written.
inline int WriteSeedsMain(int argc, char** argv, bool (*write)(const std::filesystem::path&)) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  if (write(argv[1])) return 0;
  std::fprintf(stderr, "%s: cannot be written\n", argv[1]);
  return 1;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_FUZZ_SEEDS_H_
