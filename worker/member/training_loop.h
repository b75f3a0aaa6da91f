#ifndef LONGWAVE_WORKER_MEMBER_TRAINING_LOOP_H_
#define LONGWAVE_WORKER_MEMBER_TRAINING_LOOP_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/wire/control.h"
#include "worker/checkpoint/checkpoint.h"

namespace longwave {

// What a member needs of the loop that trains. Called on the thread that calls the member.
class TrainingLoop {
 public:
  virtual ~TrainingLoop() = default;
  // A fragment's merged update is in the replica. Under `update: inner` it is the merged gradient,
  // and the inner optimizer takes its step.
  virtual absl::Status FragmentApplied() = 0;
  // A round was reported; may add a validation loss. An error ends the worker once the report was
  // told, if that has a validation loss, and before it otherwise.
  virtual absl::Status EndRound(RoundReport* report) = 0;
  // All rounds are there. writes_weights: they are this worker's to write, and to validate.
  virtual absl::StatusOr<FinalReport> Conclude(bool writes_weights) = 0;
  // The optimizer's part of a checkpoint.
  virtual absl::Status SaveOptimizer(Checkpoint* checkpoint) = 0;
  virtual absl::Status LoadOptimizer(Checkpoint& checkpoint) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_TRAINING_LOOP_H_
