// Payloads: head, layout, validation and reading stay within the bytes. A valid payload has sorted
// indices in range and finite values, and encodes to the same bytes.

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/wire/payload.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"
#include "tests/fuzz/payload_input.h"
#include "tests/support/reference/tile_codec.h"
#include "tests/support/tile_levels.h"

namespace longwave {
namespace {

uint32_t CodeOf(ValueCodec codec, int32_t level) {
  if (level == 0) return 0;  // of a zero scale
  uint32_t code = 0;
  while (LevelOf(codec, code) != level) ++code;
  return code;
}

void ReadAndRewrite(const PayloadLayout& layout, uint32_t tile, std::span<const std::byte> payload,
                    std::span<std::byte> again) {
  const ValueCodec codec = layout.format().codec;
  const uint32_t count = layout.sent_count(tile);
  std::vector<uint16_t> indices(count);
  std::vector<float> values(count);
  const uint64_t draw = SelectionDraw(1, 2, tile);
  ReadTile(layout, tile, payload, draw, indices, values);
  LONGWAVE_CHECK(indices.back() < layout.tile_size(tile));
  LONGWAVE_CHECK(std::is_sorted(indices.begin(), indices.end()));
  LONGWAVE_CHECK(std::adjacent_find(indices.begin(), indices.end()) == indices.end());
  for (float value : values) LONGWAVE_CHECK(std::isfinite(value));

  std::vector<uint32_t> codes(count);
  uint16_t scale_code = 0;
  if (HasScale(codec)) {
    std::vector<int32_t> levels(count);
    const float scale = ReadTileLevels(layout, tile, payload, draw, indices, levels);
    scale_code = EncodeScale16(scale);
    for (uint32_t i = 0; i < count; ++i) {
      LONGWAVE_CHECK(static_cast<float>(levels[i]) * scale == values[i]);
      codes[i] = CodeOf(codec, levels[i]);
    }
  } else {
    for (uint32_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<uint32_t>(values[i]);
      codes[i] = codec == ValueCodec::kBf16 ? bits >> 16 : bits;
    }
  }
  WriteTile(layout, tile, indices, codes, scale_code, again);
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longwave;
  if (size < kPayloadInputHeadBytes) return 0;
  const auto payload = std::as_bytes(std::span(data, size)).subspan(kPayloadInputHeadBytes);
  const auto format = DecodePayloadHead(payload);
  if (!format.ok()) return 0;
  const auto layout = PayloadLayout::Create(*format, TileSizesOf(data[0], data[1]));
  LONGWAVE_CHECK(layout.ok());  // a head that decodes names a format that can be laid out
  if (!ValidatePayload(*layout, payload).ok()) return 0;

  std::vector<std::byte> again(layout->bytes());
  BeginPayload(*layout, again);
  for (uint32_t tile = 0; tile < layout->tile_count(); ++tile) {
    ReadAndRewrite(*layout, tile, payload, again);
  }
  LONGWAVE_CHECK(std::equal(again.begin(), again.end(), payload.begin(), payload.end()));
  return 0;
}
