#ifndef LONGWAVE_SERVER_SHARD_MERGED_BYTES_H_
#define LONGWAVE_SERVER_SHARD_MERGED_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "server/shard/merge.h"

namespace longwave {

// Bytes of a merged payload of a segment with these tiles: exact, but for pushes of topk that go
// down whole (MergeOptions::down), where it holds for contributions that choose no coefficient
// twice, which is the most. options: passed by Validate.
size_t MergedBytesMax(const MergeOptions& options, uint32_t contributions,
                      std::span<const uint32_t> tile_sizes);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_MERGED_BYTES_H_
