#ifndef LONGWAVE_WORKER_MEMBER_CRASH_POINT_H_
#define LONGWAVE_WORKER_MEMBER_CRASH_POINT_H_

namespace longwave {

// The points of a sync at which a crash loses different state, for tests that kill a worker there.
enum class CrashPoint {
  kEncoding,      // a fragment is about to be encoded
  kEncoded,       // all its segments are encoded, and not posted
  kCheckpointed,  // a checkpoint is on the disk
  kPosted,        // a segment's push was given to the link
  kApplied,       // a fragment's merged update is in θ
};

// If the environment's LONGWAVE_CRASH_AT is "POINT:N" (encoding, encoded, checkpointed, posted,
// applied), the process kills itself (SIGKILL) when it passes that point for the Nth time.
void PassCrashPoint(CrashPoint point);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CRASH_POINT_H_
