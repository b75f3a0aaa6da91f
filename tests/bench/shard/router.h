#ifndef LONGWAVE_TESTS_BENCH_SHARD_ROUTER_H_
#define LONGWAVE_TESTS_BENCH_SHARD_ROUTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace longwave {

// The raw ZeroMQ that a shard is measured against: a ROUTER that takes `peers` messages of a
// segment and then sends each of their senders one of the wanted size, all from one buffer.
// Messages have two parts as frames have: 64 bytes, of which the first are a RawHead, and a
// payload. Nothing is looked at, copied or computed beyond that, and nothing is answered but with
// the payload.
struct RawHead {
  uint32_t segment;
  uint32_t reply_bytes;  // wanted; at most kRawReplyBytesMax
};
inline constexpr size_t kRawHeadBytes = 64;
inline constexpr uint32_t kRawReplyBytesMax = 64u << 20;

// Serves until the process ends. Calls ready(endpoint) once it listens. Internal: ZeroMQ failed.
absl::Status ServeRawRouter(uint32_t peers, const std::function<void(const std::string&)>& ready);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_ROUTER_H_
