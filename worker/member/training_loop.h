#ifndef LONGWAVE_WORKER_MEMBER_TRAINING_LOOP_H_
#define LONGWAVE_WORKER_MEMBER_TRAINING_LOOP_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/wire/control.h"
#include "worker/checkpoint/checkpoint.h"

namespace longwave {

// What a member tells the loop that trains, and has of it. Called on the thread that calls the
// member. Of a loop that overrides nothing nothing is wanted.
class TrainingLoop {
 public:
  virtual ~TrainingLoop() = default;
  // A fragment's merged update is in the replica. Under `update: inner` it is the merged gradient,
  // and the inner optimizer takes its step.
  virtual absl::Status FragmentApplied() { return absl::OkStatus(); }
  // A round was reported, or a sealing round (from the run's number of rounds on); may add a
  // validation loss. An error ends the worker once the report was
  // told, if that has a validation loss, and before it otherwise.
  virtual absl::Status EndRound(RoundReport*) { return absl::OkStatus(); }
  // The member waits for others: called some fifty times a second meanwhile.
  virtual void Waiting() {}
  // The run is sealed: all replicas are equal. writes_weights: they are this worker's to write, and
  // to validate; its report says where they are.
  virtual absl::StatusOr<FinalReport> Conclude(bool writes_weights) {
    FinalReport report;
    if (writes_weights) report.model_file = "not written: the worker's own loop has them";
    return report;
  }
  // The loop's own part of a checkpoint, between two inner steps: what its optimizer knows, say.
  // Adds at most kCheckpointBlobsMax blobs of different names; nobody else reads them. A blob's
  // bytes may be the loop's, unchanged until the next call of the member.
  virtual absl::Status Save(std::vector<NamedBlob>*) { return absl::OkStatus(); }
  // What Save gave in an earlier process, before the first step. InvalidArgument: blobs of another
  // loop or model, and which were wanted.
  virtual absl::Status Load(std::span<const NamedBlob>) { return absl::OkStatus(); }
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_TRAINING_LOOP_H_
