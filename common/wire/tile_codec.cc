#include "common/wire/tile_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/wire/bytes.h"
#include "common/wire/elias_fano.h"
#include "common/wire/scale16.h"

namespace longwave {
namespace {

uint32_t MagnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

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

// The indices of a selection that needs no values.
void DrawIndices(Selection selection, uint32_t n, uint64_t draw, std::span<uint16_t> indices) {
  if (selection == Selection::kRandom) return SelectRandom(n, draw, indices);
  if (selection == Selection::kStride) return SelectStride(n, draw, indices);
  LONGWAVE_CHECK(indices.size() == n);
  std::iota(indices.begin(), indices.end(), uint16_t{0});
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

uint64_t SelectionKey(uint64_t run_seed, uint32_t round) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  return Mix64(Mix64(run_seed + kStep) + round + kStep) + kStep;
}

uint64_t SelectionDraw(uint64_t run_seed, uint32_t round, uint64_t tile) {
  return Mix64(SelectionKey(run_seed, round) + tile);
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
  if (selection == Selection::kTopK) return SelectTopK(values, indices);
  DrawIndices(selection, static_cast<uint32_t>(values.size()), draw, indices);
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

void ReadTileIndices(const PayloadLayout& layout, uint32_t tile, std::span<const std::byte> payload,
                     uint64_t draw, std::span<uint16_t> indices) {
  const uint32_t n = layout.tile_size(tile);
  const uint32_t k = layout.sent_count(tile);
  LONGWAVE_CHECK(indices.size() == k);
  const Selection selection = layout.format().selection;
  if (selection != Selection::kTopK) return DrawIndices(selection, n, draw, indices);
  // ValidatePayload has decoded the same bytes.
  LONGWAVE_CHECK(
      EliasFanoDecode(n, payload.subspan(layout.offsets(tile).indices, EliasFanoBytes(n, k)),
                      indices)
          .ok());
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
