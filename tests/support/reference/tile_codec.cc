#include "tests/support/reference/tile_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"

namespace longwave {
namespace {

uint32_t MagnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

// The magnitudes of a tile in fixed point, with the largest in [2^39, 2^40): sums over a tile are
// sums of integers, whose order has no effect. The error is 2^-39 of the largest magnitude.
class FixedPoint {
 public:
  explicit FixedPoint(float largest) : exponent_(39 - std::ilogb(largest)) {
    factor_ = std::ldexp(1.0, exponent_);
  }
  int64_t From(float value) const {
    return static_cast<int64_t>(std::fabs(static_cast<double>(value)) * factor_);
  }
  float ToFloat(double fixed) const { return static_cast<float>(std::ldexp(fixed, -exponent_)); }

 private:
  int exponent_;
  double factor_;
};

float MeanMagnitude(std::span<const float> values, const FixedPoint& fixed) {
  int64_t sum = 0;
  for (float value : values) sum += fixed.From(value);
  return fixed.ToFloat(static_cast<double>(sum) / static_cast<double>(values.size()));
}

// Lloyd's iteration for the two magnitudes: assign each value to the nearer level, then take the
// scale that fits the assignment by least squares.
float FitInt2Scale(std::span<const float> values, const FixedPoint& fixed) {
  constexpr int kSteps = 3;
  constexpr double kMiddle = 0.5 * (kInt2Small + kInt2Large);
  int64_t sum = 0;
  for (float value : values) sum += fixed.From(value);
  double scale = static_cast<double>(sum) / (kMiddle * static_cast<double>(values.size()));
  for (int step = 0; step < kSteps; ++step) {
    const double threshold = kMiddle * scale;
    int64_t dot = 0;      // Σ |v|·L
    int64_t squares = 0;  // Σ L²
    for (float value : values) {
      const int64_t magnitude = fixed.From(value);
      const int64_t level = static_cast<double>(magnitude) > threshold ? kInt2Large : kInt2Small;
      dot += magnitude * level;
      squares += level * level;
    }
    scale = static_cast<double>(dot) / static_cast<double>(squares);
  }
  return fixed.ToFloat(scale);
}

uint16_t FitScale(ValueCodec codec, std::span<const float> values) {
  uint32_t largest_bits = 0;
  for (float value : values) largest_bits = std::max(largest_bits, MagnitudeBits(value));
  if (largest_bits == 0) return 0;
  const float largest = std::bit_cast<float>(largest_bits);
  float scale = 0;
  switch (codec) {
    case ValueCodec::kSign:
      scale = MeanMagnitude(values, FixedPoint(largest));
      break;
    case ValueCodec::kInt2:
      scale = FitInt2Scale(values, FixedPoint(largest));
      break;
    default:
      scale = largest / static_cast<float>(TopLevel(codec));
      break;
  }
  return std::min(EncodeScale16(scale), ScaleCodeMax(codec));
}

// The index of the codec's magnitude that is nearest to |value|, from the smallest; a tie goes to
// the smaller one. Products of a level and a scale are exact in double, so that nothing is rounded
// here.
uint32_t NearestMagnitude(ValueCodec codec, double magnitude, double scale) {
  switch (codec) {
    case ValueCodec::kSign:
      return 0;
    case ValueCodec::kInt2:
      return 2 * magnitude > (kInt2Small + kInt2Large) * scale ? 1 : 0;
    default: {
      // Magnitudes 1, 3, 5 …: the j-th is the nearest between 2j and 2j + 2. The quotient's error
      // is far smaller than the distance of any 24-bit magnitude from a tie.
      const uint32_t count = 1u << (ValueBits(codec) - 1);
      const double j = std::ceil(magnitude / (2 * scale)) - 1;
      return static_cast<uint32_t>(std::clamp(j, 0.0, static_cast<double>(count - 1)));
    }
  }
}

// Packs codes of kBits each, least significant first, in whole bytes, each written once.
template <uint32_t kBits>
void PackCodesOf(std::span<const uint32_t> codes, std::byte* to) {
  constexpr uint32_t kPerByte = 8 / kBits;
  const size_t whole = codes.size() / kPerByte;
  const uint32_t* from = codes.data();
  for (size_t b = 0; b < whole; ++b, from += kPerByte) {
    uint32_t byte = 0;
    for (uint32_t j = 0; j < kPerByte; ++j) byte |= from[j] << (j * kBits);
    to[b] = static_cast<std::byte>(byte);
  }
  if (const size_t left = codes.size() % kPerByte; left > 0) {
    uint32_t byte = 0;
    for (uint32_t j = 0; j < left; ++j) byte |= from[j] << (j * kBits);
    to[whole] = static_cast<std::byte>(byte);
  }
}

void PackCodes(uint32_t bits, std::span<const uint32_t> codes, std::byte* to) {
  switch (bits) {
    case 1:
      return PackCodesOf<1>(codes, to);
    case 2:
      return PackCodesOf<2>(codes, to);
    case 4:
      return PackCodesOf<4>(codes, to);
    default:
      return PackCodesOf<8>(codes, to);
  }
}

}  // namespace

uint16_t EncodeBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  // Rounding up may carry the largest magnitudes to infinity, which is not allowed.
  return static_cast<uint16_t>((rounded & 0x7fffu) > 0x7f7fu ? (rounded & 0x8000u) | 0x7f7fu
                                                             : rounded);
}

uint16_t QuantizeTile(ValueCodec codec, std::span<float> values, std::span<uint32_t> codes) {
  LONGWAVE_CHECK(codes.size() == values.size());
  if (codec == ValueCodec::kFp32) {
    for (size_t i = 0; i < values.size(); ++i) codes[i] = std::bit_cast<uint32_t>(values[i]);
    return 0;
  }
  if (codec == ValueCodec::kBf16) {
    for (size_t i = 0; i < values.size(); ++i) {
      codes[i] = EncodeBf16(values[i]);
      values[i] = std::bit_cast<float>(codes[i] << 16);
    }
    return 0;
  }
  const uint16_t scale_code = FitScale(codec, values);
  if (scale_code == 0) {
    std::fill(codes.begin(), codes.end(), 0u);
    std::fill(values.begin(), values.end(), 0.0f);
    return 0;
  }
  const float scale = DecodeScale16(scale_code);
  const uint32_t half = 1u << (ValueBits(codec) - 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const double magnitude = std::fabs(static_cast<double>(values[i]));
    const uint32_t nearest = NearestMagnitude(codec, magnitude, scale);
    // Codes increase with the levels: negative ones first, from the largest magnitude.
    codes[i] = values[i] < 0 ? half - 1 - nearest : half + nearest;
    values[i] = static_cast<float>(LevelOf(codec, codes[i])) * scale;
  }
  return scale_code;
}

void WriteTile(const PayloadLayout& layout, uint32_t tile, std::span<const uint16_t> indices,
               std::span<const uint32_t> codes, uint16_t scale, std::span<std::byte> payload) {
  WriteTileHead(layout, tile, indices, scale, payload);
  const uint32_t k = layout.sent_count(tile);
  LONGWAVE_CHECK(codes.size() == k);
  const uint32_t bits = ValueBits(layout.format().codec);
  std::byte* const values = payload.data() + layout.offsets(tile).values;
  if (bits == 32) {
    std::memcpy(values, codes.data(), codes.size_bytes());
  } else if (bits == 16) {
    for (size_t i = 0; i < k; ++i) {
      StoreLe<uint16_t>(static_cast<uint16_t>(codes[i]), values + 2 * i);
    }
  } else {
    PackCodes(bits, codes, values);
  }
}

}  // namespace longwave
