#include "server/shard_state/snapshot_size.h"

namespace longwave {

uint64_t ModelBytes(const Layout& layout, uint32_t segment, uint32_t arrays) {
  uint64_t elements = 0;
  for (const Tile& tile : layout.tiles(layout.segments()[segment])) {
    elements += uint64_t{tile.rows_valid} * tile.cols_valid;
  }
  return elements * sizeof(float) * arrays;
}

absl::Duration TimeOnSlowLink(uint64_t bytes) {
  return absl::Seconds(2 * bytes / kSlowLinkBytesPerSecond);
}

}  // namespace longwave
