#include "kernels/cpu/values.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"

namespace longwave::cpu {
namespace {

float FitScale(const TileMath& math, ValueCodec codec, uint32_t count, uint32_t largest,
               TileWork& work) {
  switch (codec) {
    case ValueCodec::kSign:
      return math.fit_sign(count, work.values, largest);
    case ValueCodec::kInt2:
      return math.fit_int2(count, work.values, largest);
    default:
      return std::bit_cast<float>(largest) / static_cast<float>(TopLevel(codec));
  }
}

NarrowLevels LevelsOf(ValueCodec codec, float scale) {
  if (codec == ValueCodec::kSign) return {std::numeric_limits<float>::infinity(), scale, scale};
  // Exact: a scale has 9 bits, and its top level is finite.
  return {0.5f * (kInt2Small + kInt2Large) * scale, kInt2Small * scale, kInt2Large * scale};
}

}  // namespace

const TileMath& TileMathOf(Isa isa) {
#ifdef LONGWAVE_CPU_X86
  if (isa == Isa::kAvx2) return kTileMathAvx2;
  if (isa == Isa::kAvx512) return kTileMathAvx512;
#endif
  LONGWAVE_CHECK(isa == Isa::kGeneric);
  return kTileMathGeneric;
}

uint16_t QuantizeValues(const TileMath& math, ValueCodec codec, uint32_t count, TileWork& work) {
  if (codec == ValueCodec::kFp32) {
    std::memcpy(work.codes, work.values, count * sizeof(float));
    return 0;
  }
  if (codec == ValueCodec::kBf16) {
    math.quantize_bf16(count, work.values, work.codes);
    return 0;
  }
  const uint32_t largest = math.largest(count, work.values);
  uint16_t code = 0;
  if (largest != 0) {
    const float scale = FitScale(math, codec, count, largest, work);
    code = std::min(EncodeScale16(scale), ScaleCodeMax(codec));
  }
  if (code == 0) {
    std::fill_n(work.codes, count, 0u);
    std::fill_n(work.values, count, 0.0f);
    return 0;
  }
  const float scale = DecodeScale16(code);
  const uint32_t bits = ValueBits(codec);
  if (bits <= 2) {
    math.quantize_narrow(bits, LevelsOf(codec, scale), count, work.values, work.codes);
  } else {
    math.quantize_wide(bits, scale, count, work.values, work.codes);
  }
  return code;
}

void ReadValues(const TileMath& math, const PayloadLayout& layout, uint32_t tile,
                std::span<const std::byte> payload, TileWork& work) {
  const ValueCodec codec = layout.format().codec;
  const TileOffsets& offsets = layout.offsets(tile);
  const uint32_t count = layout.sent_count(tile);
  const auto* const from = reinterpret_cast<const uint8_t*>(payload.data() + offsets.values);
  if (codec == ValueCodec::kFp32) {
    std::memcpy(work.values, from, count * sizeof(float));
    return;
  }
  if (codec == ValueCodec::kBf16) return math.read_bf16(count, from, work.values);
  const auto code = LoadLe<uint16_t>(payload.data() + offsets.scale);
  if (code == 0) {
    std::fill_n(work.values, count, 0.0f);  // not −1 · 0, which is −0
    return;
  }
  const float scale = DecodeScale16(code);
  const uint32_t bits = ValueBits(codec);
  if (bits > 2) return math.read_wide(bits, scale, count, from, work.values);
  float levels[4];
  for (uint32_t c = 0; c < (1u << bits); ++c) {
    levels[c] = static_cast<float>(LevelOf(codec, c)) * scale;
  }
  math.read_narrow(bits, levels, count, from, work.values);
}

}  // namespace longwave::cpu
