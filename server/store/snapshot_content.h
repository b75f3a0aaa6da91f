#ifndef LONGWAVE_SERVER_STORE_SNAPSHOT_CONTENT_H_
#define LONGWAVE_SERVER_STORE_SNAPSHOT_CONTENT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/wire/buffer.h"
#include "server/shard/shard_records.h"

namespace longwave {

// What the two kinds of snapshot hold, segment by segment, and as which bytes (proto/LOG.md).

// InvalidArgument: a closed update that is not a merged frame of the round before with the payload
// and the contributors that its header says.
absl::StatusOr<Buffer> EncodeStateContent(std::span<const SegmentSnapshot> segments);
// Payloads are views of `content`. DataLoss: what EncodeStateContent would not have written.
absl::StatusOr<std::vector<SegmentSnapshot>> DecodeStateContent(const Buffer& content,
                                                                uint32_t segment_count);

// θ: each segment's parameters, fp32, in the order of the flat array (layout.h).
Buffer EncodeModelContent(std::span<const std::span<const float>> segments);
// Views of `content`, which must begin at a multiple of 8 in memory, as every whole allocation
// does. DataLoss: as above.
absl::StatusOr<std::vector<std::span<const float>>> DecodeModelContent(const Buffer& content,
                                                                       uint32_t segment_count);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_SNAPSHOT_CONTENT_H_
