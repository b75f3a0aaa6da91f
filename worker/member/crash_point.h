#ifndef LONGWAVE_WORKER_MEMBER_CRASH_POINT_H_
#define LONGWAVE_WORKER_MEMBER_CRASH_POINT_H_

namespace longwave {

// Where a crash costs something else each time, for tests that kill a worker there.
enum class CrashPoint {
  kEncoding,      // a fragment is about to be encoded
  kEncoded,       // all its segments are encoded; nobody else has them
  kCheckpointed,  // a checkpoint is on the disk
  kPosted,        // a segment's push was given to the link
  kApplied,       // a fragment's merged update is in θ
};

// Where the environment's LONGWAVE_CRASH_AT is "POINT:N" (encoding, encoded, checkpointed, posted,
// applied), the process kills itself (SIGKILL) as it passes that point for the Nth time.
void PassCrashPoint(CrashPoint point);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CRASH_POINT_H_
