#ifndef LONGWAVE_COMMON_CONTROL_LOST_ROUNDS_H_
#define LONGWAVE_COMMON_CONTROL_LOST_ROUNDS_H_

#include <cstdint>

namespace longwave {

// The most rounds that a shard may have lost with its log's end, which is less than a heartbeat
// long; a round takes seconds. A folder that lacks more is from an older time.
inline constexpr uint32_t kLostRoundsMax = 2;

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONTROL_LOST_ROUNDS_H_
