#include "common/wire/square_sum.h"

#include <array>
#include <bit>
#include <cstdint>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "common/wire/codec.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"

namespace longwave {
namespace {

// Σ level² of the codes 0 … count − 1 of int4 or int8, by a table over the codes.
uint64_t LevelSquares(ValueCodec codec, const std::byte* from, uint32_t count) {
  const uint32_t bits = ValueBits(codec);
  const auto square = [codec](uint32_t code) {
    const int32_t level = LevelOf(codec, code);
    return static_cast<uint64_t>(level * level);
  };
  uint64_t sum = 0;
  if (bits == 8) {
    for (uint32_t i = 0; i < count; ++i) sum += square(std::to_integer<uint32_t>(from[i]));
    return sum;
  }
  for (uint32_t i = 0; i < count; ++i) {
    sum += square(std::to_integer<uint32_t>(from[i / 2]) >> (i % 2 * 4) & 15u);
  }
  return sum;
}

// The codes of int2 whose two bits are equal, 0 and 3, are the large levels.
uint64_t Int2Squares(std::span<const std::byte> codes, uint32_t count) {
  uint64_t large = 0;
  for (uint32_t i = 0; i < count; i += 32) {
    const uint64_t word = LoadWordAt(codes, i / 4);
    uint64_t equal = ~(word ^ word >> 1) & 0x5555555555555555u;
    if (count - i < 32) equal &= (uint64_t{1} << (2 * (count - i))) - 1;
    large += static_cast<uint64_t>(std::popcount(equal));
  }
  return large * kInt2Large * kInt2Large + (count - large) * kInt2Small * kInt2Small;
}

double FloatSquares(ValueCodec codec, const std::byte* from, uint32_t count) {
  std::array<double, 4> sums{};  // four independent sums hide the latency of additions
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t pattern = codec == ValueCodec::kFp32
                                 ? LoadLe<uint32_t>(from + 4 * size_t{i})
                                 : uint32_t{LoadLe<uint16_t>(from + 2 * size_t{i})} << 16;
    const double value = std::bit_cast<float>(pattern);
    sums[i % 4] += value * value;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

double TileSquareSum(const PayloadLayout& layout, uint32_t tile,
                     std::span<const std::byte> payload) {
  const ValueCodec codec = layout.format().codec;
  const uint32_t count = layout.sent_count(tile);
  const TileOffsets& offsets = layout.offsets(tile);
  const std::byte* const values = payload.data() + offsets.values;
  if (!HasScale(codec)) return FloatSquares(codec, values, count);
  const double scale = DecodeScale16(LoadLe<uint16_t>(payload.data() + offsets.scale));
  uint64_t squares = count;
  if (codec == ValueCodec::kInt2) {
    squares = Int2Squares(payload.subspan(offsets.values, (size_t{count} + 3) / 4), count);
  } else if (codec != ValueCodec::kSign) {
    squares = LevelSquares(codec, values, count);
  }
  return static_cast<double>(squares) * (scale * scale);
}

double PayloadSquareSum(const PayloadLayout& layout, std::span<const std::byte> payload) {
  LONGWAVE_CHECK(payload.size() == layout.bytes());
  double sum = 0;
  for (uint32_t tile = 0; tile < layout.tile_count(); ++tile) {
    sum += TileSquareSum(layout, tile, payload);
  }
  return sum;
}

}  // namespace longwave
