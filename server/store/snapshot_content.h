#ifndef LONGWAVE_SERVER_STORE_SNAPSHOT_CONTENT_H_
#define LONGWAVE_SERVER_STORE_SNAPSHOT_CONTENT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/buffer.h"
#include "server/shard/shard_records.h"

namespace longwave {

// The content of state and model snapshots, segment by segment, and its bytes (proto/LOG.md).

// InvalidArgument: a closed update is not a merged frame of the round before, or its payload or
// contributors do not match its header.
absl::StatusOr<Buffer> EncodeStateContent(std::span<const SegmentSnapshot> segments);
// Payloads are views of `content`. DataLoss: EncodeStateContent cannot have written the bytes.
absl::StatusOr<std::vector<SegmentSnapshot>> DecodeStateContent(const Buffer& content,
                                                                uint32_t segment_count);

// θ: each segment's parameters, fp32, in the order of the flat array (layout.h).
Buffer EncodeModelContent(std::span<const std::span<const float>> segments);
// Views of `content`, whose address must be a multiple of 8, as every whole allocation's is.
// DataLoss: as above.
absl::StatusOr<std::vector<std::span<const float>>> DecodeModelContent(const Buffer& content,
                                                                       uint32_t segment_count);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_SNAPSHOT_CONTENT_H_
