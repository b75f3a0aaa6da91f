// Payloads of snapshot frames: the decoder must not crash, read out of bounds or reserve more than
// requested, and a decoded payload survives encoding and decoding. The first three bytes are the
// request: arrays, and elements (u16). Every input is also tried with a correct head.

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "common/wire/snapshot_payload.h"

namespace longwave {
namespace {

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  const auto bytes = std::as_bytes(std::span(a));
  return std::ranges::equal(bytes, std::as_bytes(std::span(b)));
}

void Read(std::span<const std::byte> payload, uint32_t count, uint64_t elements) {
  const auto arrays = DecodeSnapshotPayload(payload, count, elements);
  if (!arrays.ok()) {
    LONGWAVE_CHECK(!arrays.status().message().empty());
    return;
  }
  LONGWAVE_CHECK(arrays->size() == count);
  const std::vector<std::span<const float>> spans(arrays->begin(), arrays->end());
  const Buffer encoded = EncodeSnapshotPayload(spans);
  const auto again = DecodeSnapshotPayload(encoded.bytes(), count, elements);
  LONGWAVE_CHECK(again.ok() && std::ranges::equal(*again, *arrays, Same));
}

std::vector<std::byte> PutRight(std::span<const std::byte> input, uint32_t count,
                                uint64_t elements) {
  std::vector<std::byte> payload(input.begin(), input.end());
  payload.resize(std::max(payload.size(), kSnapshotPayloadHeadBytes));
  StoreLe<uint32_t>(kSnapshotPayloadMagic, payload.data());
  StoreLe<uint32_t>(count, payload.data() + 4);
  StoreLe<uint64_t>(elements, payload.data() + 8);
  std::vector<std::byte> raw(count * elements * sizeof(float));
  const auto frame = std::span(payload).subspan(kSnapshotPayloadHeadBytes);
  const size_t got = ZSTD_decompress(raw.data(), raw.size(), frame.data(), frame.size());
  if (got == raw.size()) {
    StoreLe<uint64_t>(XXH3_64bits(raw.data(), raw.size()), payload.data() + 16);
  }
  return payload;
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longwave;
  if (size < 3) return 0;
  const auto input = std::as_bytes(std::span(data, size));
  const uint32_t count = 1 + data[0] % kSnapshotArraysMax;
  const auto elements = LoadLe<uint16_t>(input.data() + 1);
  Read(input.subspan(3), count, elements);
  Read(PutRight(input.subspan(3), count, elements), count, elements);
  return 0;
}
