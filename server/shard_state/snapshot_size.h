#ifndef LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_SIZE_H_
#define LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_SIZE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/layout/layout.h"

namespace longwave {

// Upper bound of a model snapshot of the segment. arrays: θ, and with update nesterov the velocity.
uint64_t ModelBytes(const Layout& layout, uint32_t segment, uint32_t arrays);

// The slowest link that a snapshot's patience allows for; pushes take half of it.
inline constexpr uint64_t kSlowLinkBytesPerSecond = 125'000;  // 1 Mbit/s
absl::Duration TimeOnSlowLink(uint64_t bytes);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_SIZE_H_
