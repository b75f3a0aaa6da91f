#ifndef LONGWAVE_TESTS_SUPPORT_TILE_LEVELS_H_
#define LONGWAVE_TESTS_SUPPORT_TILE_LEVELS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/wire/bytes.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"

namespace longwave {

// As ReadTile, with integer levels for an integer codec, all zero with a zero scale. Returns the
// scale.
inline float ReadTileLevels(const PayloadLayout& layout, uint32_t tile,
                            std::span<const std::byte> payload, uint64_t draw,
                            std::span<uint16_t> indices, std::span<int32_t> levels) {
  std::vector<float> values(levels.size());
  ReadTile(layout, tile, payload, draw, indices, values);
  const float scale = DecodeScale16(LoadLe<uint16_t>(payload.data() + layout.offsets(tile).scale));
  for (size_t i = 0; i < levels.size(); ++i) {
    levels[i] = scale == 0 ? 0 : static_cast<int32_t>(std::lround(values[i] / scale));
  }
  return scale;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_TILE_LEVELS_H_
