#ifndef LONGWAVE_WORKER_MEMBER_CRASH_POINT_H_
#define LONGWAVE_WORKER_MEMBER_CRASH_POINT_H_

#include <string_view>

namespace longwave {

// The points of a sync at which a crash loses different state, for tests that kill a worker there:
//   encoding      a fragment is about to be encoded
//   encoded       all its segments are encoded, and not posted
//   checkpointed  a checkpoint is on the disk
//   posted        a segment's push was given to the link
//   applied       a fragment's merged update is in θ
// If the environment's LONGWAVE_CRASH_AT is "POINT:N", the process kills itself (SIGKILL) when it
// passes that point for the Nth time.
void PassCrashPoint(std::string_view point);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CRASH_POINT_H_
