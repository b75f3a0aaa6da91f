#ifndef LONGWAVE_WORKER_MEMBER_TRAINING_LOOP_H_
#define LONGWAVE_WORKER_MEMBER_TRAINING_LOOP_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/control/control.h"
#include "worker/checkpoint/checkpoint.h"

namespace longwave {

// The member's calls to the training loop, made on the thread that calls the member. The defaults
// suit a loop that only takes steps.
class TrainingLoop {
 public:
  virtual ~TrainingLoop() = default;
  // A fragment's merged update is in the replica. Under `update: inner` the update is the merged
  // gradient, and the inner optimizer takes its step. Counts as computing.
  virtual absl::Status FragmentApplied() { return absl::OkStatus(); }
  // A round, or a sealing round (from the run's number of rounds on), is about to be reported. The
  // loop may add a validation loss to the report. An error ends the worker, after the report was
  // sent if it has a validation loss, and before otherwise.
  virtual absl::Status EndRound(RoundReport*) { return absl::OkStatus(); }
  // Called about fifty times a second while the member waits.
  virtual void Waiting() {}
  // The run is sealed: all replicas are equal. writes_weights: this worker validates and writes the
  // weights, and its report says where they are.
  virtual absl::StatusOr<FinalReport> Conclude(bool writes_weights) {
    FinalReport report;
    if (writes_weights) report.model_file = "not written: the worker's own loop has them";
    return report;
  }
  // Adds the loop's part of a checkpoint, between two inner steps, for example its optimizer's
  // state: at most kCheckpointBlobsMax blobs with different names, which only this loop reads. A
  // blob may refer to the loop's own bytes, which must not change until the next call of the
  // member.
  virtual absl::Status Save(std::vector<NamedBlob>*) { return absl::OkStatus(); }
  // The blobs that Save gave in an earlier process, before the first step. InvalidArgument: blobs
  // of another loop or model; the message says which were wanted.
  virtual absl::Status Load(std::span<const NamedBlob>) { return absl::OkStatus(); }
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_TRAINING_LOOP_H_
