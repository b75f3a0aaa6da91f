#ifndef LONGWAVE_SERVER_SHARD_AGGREGATOR_CHECKS_H_
#define LONGWAVE_SERVER_SHARD_AGGREGATOR_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/codec.h"
#include "common/wire/frame.h"
#include "common/wire/payload.h"
#include "server/shard/aggregator.h"
#include "server/shard/merge.h"

namespace longwave {

// "worker 3, round 17, segment 2", of a merged update "round 17, segment 2": what every complaint
// about a frame or a record says.
std::string PlaceOf(const FrameHeader& header);

// What the aggregator holds options and payloads against. The messages of payloads' errors begin
// with what is wrong; whose they are is for the caller to say.

MergeOptions MergeOptionsOf(const AggregatorOptions& options);

// The errors of Aggregator::Create.
absl::Status CheckOptions(const AggregatorOptions& options, const Layout& layout);

// The largest open_bytes_max with which Create would find that available_bytes is enough; 1 where
// none is. InvalidArgument: a segment whose payload would be larger than a frame carries.
absl::StatusOr<uint64_t> OpenBytesLeft(const AggregatorOptions& options, const Layout& layout);

// Byte layouts that a segment remembers; a worker that makes up formats can't fill the memory.
inline constexpr size_t kPushFormatsMax = 16;

// The payload's byte layout, after the payload was held against it and against what `up` allows.
// formats: the segment's, to which it may be added in place of another.
absl::StatusOr<std::shared_ptr<const PayloadLayout>> CheckPushPayload(
    const PayloadFormat& up, std::span<const uint32_t> tile_sizes,
    std::span<const std::byte> payload, std::vector<std::shared_ptr<const PayloadLayout>>& formats);

// The largest norm of a push: kMergedMax is 2^60 times that, so that no sum of them saturates.
inline constexpr float kPushNormMax = 0x1p60f;

// Whether a stated norm is one, and, if contributions are clipped by it, the payload's own and not
// above kPushNormMax.
absl::Status CheckPushNorm(float norm, bool is_clipped, const PayloadLayout& layout,
                           std::span<const std::byte> payload);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_AGGREGATOR_CHECKS_H_
