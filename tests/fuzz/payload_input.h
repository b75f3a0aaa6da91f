#ifndef LONGWAVE_TESTS_FUZZ_PAYLOAD_INPUT_H_
#define LONGWAVE_TESTS_FUZZ_PAYLOAD_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace longwave {

// An input of payload_decode_fuzz: two bytes that choose the tiles' sizes, then a payload.
inline constexpr size_t kPayloadInputHeadBytes = 2;

// 1 to 8 tiles; the second byte picks the first size and the step to the next ones.
inline std::vector<uint32_t> TileSizesOf(uint8_t count, uint8_t pick) {
  constexpr uint32_t kSizes[] = {64, 1, 7, 100, 4096, 63, 1000, 25};
  std::vector<uint32_t> sizes;
  for (uint32_t i = 0; i < 1 + count % 8u; ++i) {
    sizes.push_back(kSizes[(pick % 16u + i * (pick / 16u)) % 8]);
  }
  return sizes;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_FUZZ_PAYLOAD_INPUT_H_
