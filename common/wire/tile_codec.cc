#include "common/wire/tile_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/wire/bytes.h"
#include "common/wire/elias_fano.h"
#include "common/wire/scale16.h"

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

// Calls f(i, code) for the codes 0 … count − 1 of kBits each, of which none crosses a byte.
template <uint32_t kBits, typename F>
void ForCodesOf(const std::byte* from, size_t count, const F& f) {
  constexpr uint32_t kPerByte = 8 / kBits;
  size_t i = 0;
  for (; i + kPerByte <= count; i += kPerByte) {
    const auto byte = std::to_integer<uint32_t>(*from++);
    for (uint32_t j = 0; j < kPerByte; ++j) f(i + j, byte >> (j * kBits) & ((1u << kBits) - 1));
  }
  for (uint32_t j = 0; i < count; ++i, ++j) {
    f(i, std::to_integer<uint32_t>(*from) >> (j * kBits) & ((1u << kBits) - 1));
  }
}

template <typename F>
void ForCodes(uint32_t bits, const std::byte* from, size_t count, const F& f) {
  switch (bits) {
    case 1:
      return ForCodesOf<1>(from, count, f);
    case 2:
      return ForCodesOf<2>(from, count, f);
    case 4:
      return ForCodesOf<4>(from, count, f);
    default:
      return ForCodesOf<8>(from, count, f);
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

uint16_t ScaleCodeMax(ValueCodec codec) {
  static const std::array<uint16_t, 6> codes = [] {
    std::array<uint16_t, 6> table{};
    for (const ValueCodec c :
         {ValueCodec::kInt8, ValueCodec::kInt4, ValueCodec::kInt2, ValueCodec::kSign}) {
      uint16_t code = 0xfeff;
      while (!std::isfinite(static_cast<float>(TopLevel(c)) * DecodeScale16(code))) --code;
      table[static_cast<size_t>(c)] = code;
    }
    return table;
  }();
  return codes[static_cast<size_t>(codec)];
}

uint16_t EncodeBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  // Rounding up may carry the largest magnitudes to infinity, which is not allowed.
  return static_cast<uint16_t>((rounded & 0x7fffu) > 0x7f7fu ? (rounded & 0x8000u) | 0x7f7fu
                                                             : rounded);
}

uint64_t SelectionDraw(uint64_t run_seed, uint32_t round, uint64_t tile) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  return Mix64(Mix64(Mix64(run_seed + kStep) + round + kStep) + tile + kStep);
}

void SelectTopK(std::span<const float> values, std::span<uint16_t> indices) {
  LONGWAVE_CHECK(!indices.empty() && indices.size() <= values.size());
  LONGWAVE_CHECK(values.size() <= 65536);
  // A radix search for the k-th largest magnitude. Finite floats' magnitudes are ordered as their
  // 31 bits without the sign: three digits, the uppermost first.
  struct Digit {
    uint32_t shift, bits;
  };
  constexpr Digit kDigits[] = {{20, 11}, {10, 10}, {0, 10}};
  std::array<uint32_t, 1u << 11> histogram;
  uint32_t threshold = 0;                                   // the digits found so far
  uint32_t known = 0;                                       // mask of them
  uint32_t wanted = static_cast<uint32_t>(indices.size());  // among those equal in them
  for (const Digit digit : kDigits) {
    const uint32_t mask = (1u << digit.bits) - 1;
    histogram.fill(0);
    for (float value : values) {
      const uint32_t magnitude = MagnitudeBits(value);
      if ((magnitude & known) == threshold) ++histogram[(magnitude >> digit.shift) & mask];
    }
    uint32_t bucket = mask;
    while (histogram[bucket] < wanted) wanted -= histogram[bucket--];
    threshold |= bucket << digit.shift;
    known |= mask << digit.shift;
  }
  // All above the threshold, and the first `wanted` of those equal to it, in increasing order.
  size_t count = 0;
  for (size_t i = 0; count < indices.size(); ++i) {
    const uint32_t magnitude = MagnitudeBits(values[i]);
    if (magnitude < threshold) continue;
    if (magnitude == threshold) {
      if (wanted == 0) continue;
      --wanted;
    }
    indices[count++] = static_cast<uint16_t>(i);
  }
}

void SelectRandom(uint32_t n, uint64_t draw, std::span<uint16_t> indices) {
  const uint32_t k = static_cast<uint32_t>(indices.size());
  LONGWAVE_CHECK(1 <= k && k <= n && n <= kTileSizeMax);
  // Floyd's sample: the j-th draw is from the first j + 1 indices, and takes j if it hits a taken
  // one. Source: Bentley & Floyd 1987.
  std::array<uint64_t, kTileSizeMax / 64> taken{};
  Rng rng(draw);
  for (uint32_t j = n - k; j < n; ++j) {
    uint32_t index = static_cast<uint32_t>(rng.Below(j + 1));
    if ((taken[index / 64] >> (index % 64) & 1) != 0) index = j;
    taken[index / 64] |= uint64_t{1} << (index % 64);
  }
  size_t count = 0;
  for (uint32_t w = 0; w < taken.size(); ++w) {
    for (uint64_t word = taken[w]; word != 0; word &= word - 1) {
      indices[count++] = static_cast<uint16_t>(w * 64 + std::countr_zero(word));
    }
  }
}

void SelectStride(uint32_t n, uint64_t draw, std::span<uint16_t> indices) {
  const uint32_t k = static_cast<uint32_t>(indices.size());
  LONGWAVE_CHECK(1 <= k && k <= n && n <= kTileSizeMax);
  const uint32_t stride = n / k;
  const uint32_t start = static_cast<uint32_t>(Rng(draw).Below(stride));
  for (uint32_t i = 0; i < k; ++i) indices[i] = static_cast<uint16_t>(start + i * stride);
}

void SelectIndices(Selection selection, std::span<const float> values, uint64_t draw,
                   std::span<uint16_t> indices) {
  const auto n = static_cast<uint32_t>(values.size());
  switch (selection) {
    case Selection::kAll:
      LONGWAVE_CHECK(indices.size() == n);
      return std::iota(indices.begin(), indices.end(), uint16_t{0});
    case Selection::kTopK:
      return SelectTopK(values, indices);
    case Selection::kRandom:
      return SelectRandom(n, draw, indices);
    case Selection::kStride:
      return SelectStride(n, draw, indices);
  }
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

void WriteTileHead(const PayloadLayout& layout, uint32_t tile, std::span<const uint16_t> indices,
                   uint16_t scale, std::span<std::byte> payload) {
  const PayloadFormat& format = layout.format();
  const TileOffsets& offsets = layout.offsets(tile);
  LONGWAVE_CHECK(payload.size() == layout.bytes());
  if (HasScale(format.codec)) StoreLe<uint16_t>(scale, payload.data() + offsets.scale);
  if (format.selection != Selection::kTopK) return;
  const uint32_t n = layout.tile_size(tile);
  const uint32_t k = layout.sent_count(tile);
  LONGWAVE_CHECK(indices.size() == k);
  EliasFanoEncode(n, indices, payload.subspan(offsets.indices, EliasFanoBytes(n, k)));
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

void ReadTileIndices(const PayloadLayout& layout, uint32_t tile, std::span<const std::byte> payload,
                     uint64_t draw, std::span<uint16_t> indices) {
  const uint32_t n = layout.tile_size(tile);
  const uint32_t k = layout.sent_count(tile);
  LONGWAVE_CHECK(indices.size() == k);
  switch (layout.format().selection) {
    case Selection::kAll:
      std::iota(indices.begin(), indices.end(), uint16_t{0});
      return;
    case Selection::kTopK:
      // ValidatePayload has decoded the same bytes.
      LONGWAVE_CHECK(
          EliasFanoDecode(n, payload.subspan(layout.offsets(tile).indices, EliasFanoBytes(n, k)),
                          indices)
              .ok());
      return;
    case Selection::kRandom:
      SelectRandom(n, draw, indices);
      return;
    case Selection::kStride:
      SelectStride(n, draw, indices);
      return;
  }
}

void ReadTile(const PayloadLayout& layout, uint32_t tile, std::span<const std::byte> payload,
              uint64_t draw, std::span<uint16_t> indices, std::span<float> values) {
  ReadTileIndices(layout, tile, payload, draw, indices);
  const ValueCodec codec = layout.format().codec;
  const size_t k = layout.sent_count(tile);
  LONGWAVE_CHECK(payload.size() == layout.bytes() && values.size() == k);
  const std::byte* const from = payload.data() + layout.offsets(tile).values;
  if (codec == ValueCodec::kFp32) {
    for (size_t i = 0; i < k; ++i) values[i] = LoadLe<float>(from + 4 * i);
    return;
  }
  if (codec == ValueCodec::kBf16) {
    for (size_t i = 0; i < k; ++i) {
      values[i] = std::bit_cast<float>(uint32_t{LoadLe<uint16_t>(from + 2 * i)} << 16);
    }
    return;
  }
  const auto scale_code = LoadLe<uint16_t>(payload.data() + layout.offsets(tile).scale);
  if (scale_code == 0) {
    std::fill(values.begin(), values.end(), 0.0f);  // not −1 · 0, which is −0
    return;
  }
  const float scale = DecodeScale16(scale_code);
  ForCodes(ValueBits(codec), from, k, [&](size_t i, uint32_t code) {
    values[i] = static_cast<float>(LevelOf(codec, code)) * scale;
  });
}

}  // namespace longwave
