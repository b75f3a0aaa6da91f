#ifndef LONGWAVE_TESTS_UNIT_WIRE_WIRE_TESTING_H_
#define LONGWAVE_TESTS_UNIT_WIRE_WIRE_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/wire/payload.h"
#include "common/wire/tile_codec.h"
#include "tests/support/reference/tile_codec.h"

namespace longwave {

inline std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// Bell-shaped values around zero of about `scale`, with some zeros of both signs among them.
inline std::vector<float> RandomValues(size_t count, float scale, Rng& rng) {
  std::vector<float> values(count);
  for (float& value : values) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += rng.Uniform() - 0.5;
    value =
        rng.Below(17) == 0 ? (rng.Below(2) == 0 ? 0.0f : -0.0f) : static_cast<float>(sum) * scale;
  }
  return values;
}

// A payload with the values that a receiver must read from it.
struct BuiltPayload {
  std::vector<std::byte> bytes;
  std::vector<std::vector<uint16_t>> indices;
  std::vector<std::vector<float>> values;
};

// Random coefficients through the whole encoder; tile t draws from `seed` + t.
inline BuiltPayload BuildRandomPayload(const PayloadLayout& layout, float scale, uint64_t seed) {
  Rng rng(seed);
  BuiltPayload built;
  built.bytes.resize(layout.bytes());
  BeginPayload(layout, built.bytes);
  for (uint32_t tile = 0; tile < layout.tile_count(); ++tile) {
    const std::vector<float> all = RandomValues(layout.tile_size(tile), scale, rng);
    std::vector<uint16_t> indices(layout.sent_count(tile));
    SelectIndices(layout.format().selection, all, seed + tile, indices);
    std::vector<float> values;
    for (uint16_t index : indices) values.push_back(all[index]);
    std::vector<uint32_t> codes(values.size());
    const uint16_t scale_code = QuantizeTile(layout.format().codec, values, codes);
    WriteTile(layout, tile, indices, codes, scale_code, built.bytes);
    built.indices.push_back(std::move(indices));
    built.values.push_back(std::move(values));
  }
  return built;
}

inline PayloadLayout LayoutOf(Selection selection, ValueCodec codec, uint16_t k,
                              std::vector<uint32_t> tile_sizes) {
  auto layout = PayloadLayout::Create({.selection = selection, .codec = codec, .k = k}, tile_sizes);
  LONGWAVE_CHECK(layout.ok());
  return *std::move(layout);
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_WIRE_WIRE_TESTING_H_
