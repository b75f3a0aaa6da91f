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

// "worker 3, round 17, segment 2" for a push, "round 17, segment 2" for a merged update: the place
// of a frame or record in error messages.
std::string PlaceOf(const FrameName& frame);

// Checks of the aggregator's options and payloads. The messages about payloads begin with the
// fault; the caller adds the place.

MergeOptions MergeOptionsOf(const AggregatorOptions& options);

// The errors of Aggregator::Create.
absl::Status CheckOptions(const AggregatorOptions& options, const Layout& layout);

// The largest open_bytes_max for which Create finds available_bytes sufficient; 1 if there is none.
// InvalidArgument: the payload of a segment exceeds a frame.
absl::StatusOr<uint64_t> OpenBytesLeft(const AggregatorOptions& options, const Layout& layout);

// Limit of the byte layouts that a segment caches, so that a worker that invents formats cannot
// exhaust memory.
inline constexpr size_t kPushFormatsMax = 16;

// Checks a payload against itself and against `up`, and returns its byte layout. formats: the
// segment's cache, where the layout may replace another one.
absl::StatusOr<std::shared_ptr<const PayloadLayout>> CheckPushPayload(
    const PayloadFormat& up, std::span<const uint32_t> tile_sizes,
    std::span<const std::byte> payload, std::vector<std::shared_ptr<const PayloadLayout>>& formats);

// The largest norm of a push. kMergedMax is 2^60 times as large, so no sum of pushes saturates.
inline constexpr float kPushNormMax = 0x1p60f;

// Checks that a stated norm is a norm and, if clipping uses it, is the payload's and at most
// kPushNormMax.
absl::Status CheckPushNorm(float norm, bool is_clipped, const PayloadLayout& layout,
                           std::span<const std::byte> payload);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_AGGREGATOR_CHECKS_H_
