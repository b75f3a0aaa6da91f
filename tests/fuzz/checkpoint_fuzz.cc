// Checkpoint files: the reader must not crash, read out of bounds or allocate more than the shape
// and the bytes need, and decoded files are canonical. Every input is also tried with correct
// hashes and the shape's counts.

#include <algorithm>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "server/store/snapshot_format.h"
#include "worker/checkpoint/checkpoint.h"

namespace longwave {
namespace {

constexpr CheckpointShape kShape = {
    .layout_hash = 0xabcd, .coefficient_count = 7, .segment_count = 4};

void Read(const std::vector<std::byte>& file) {
  const auto checkpoint = DecodeCheckpoint(Buffer(file), kShape);
  if (!checkpoint.ok()) {
    LONGWAVE_CHECK(!checkpoint.status().message().empty());
    return;
  }
  const auto encoded = EncodeCheckpoint(*checkpoint);
  LONGWAVE_CHECK(encoded.ok() && encoded->bytes == file.size());
  std::vector<std::byte> again;
  for (const auto piece : encoded->pieces) again.insert(again.end(), piece.begin(), piece.end());
  LONGWAVE_CHECK(again == file);
}

std::vector<std::byte> PutRight(std::span<const std::byte> input) {
  std::vector<std::byte> file(input.begin(), input.end());
  if (file.size() < kCheckpointHeaderBytes) return file;
  StoreLe<uint32_t>(kCheckpointMagic, file.data());
  StoreLe<uint32_t>(kCheckpointVersion, file.data() + 4);
  StoreLe<uint64_t>(kShape.layout_hash, file.data() + 16);
  StoreLe<uint32_t>(LoadLe<uint32_t>(file.data() + 36) % 5, file.data() + 36);
  for (const size_t at : {56, 64}) {  // numbers that must be finite
    StoreLe<double>(static_cast<double>(LoadLe<uint8_t>(file.data() + at)), file.data() + at);
  }
  StoreLe<uint64_t>(kShape.coefficient_count, file.data() + 104);
  StoreLe<uint32_t>(LoadLe<uint8_t>(file.data() + 112) % 5, file.data() + 112);
  StoreLe<uint32_t>(LoadLe<uint8_t>(file.data() + 116) % 17, file.data() + 116);
  StoreLe<uint64_t>(0, file.data() + 120);
  const auto all = std::span<const std::byte>(file);
  StoreLe<uint64_t>(file.size() - kCheckpointHeaderBytes, file.data() + 128);
  StoreLe<uint64_t>(HashContent(all.subspan(kCheckpointHeaderBytes)), file.data() + 136);
  StoreLe<uint64_t>(HashContent(all.first(144)), file.data() + 144);
  return file;
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longwave;
  const auto input = std::as_bytes(std::span(data, size));
  Read({input.begin(), input.end()});
  Read(PutRight(input));
  return 0;
}
