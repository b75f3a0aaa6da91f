#ifndef LONGWAVE_WORKER_NODE_TENSOR_MEETING_H_
#define LONGWAVE_WORKER_NODE_TENSOR_MEETING_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/member/node_link.h"

namespace longwave {

// The meetings of ranks that are about to pass tensors. Errors: those of the link; the error with
// which another rank ends, which it says in a meeting of Node; Internal: a rank has called for
// something else.
class TensorMeeting {
 public:
  // patience: see NodeLink. The link outlives the object.
  TensorMeeting(NodeLink* link, absl::Duration patience) : link_(link), patience_(patience) {}

  NodeRank node() const { return link_->node(); }
  // The bytes of each rank, by rank. Writes to shared memory before it are seen after it.
  absl::StatusOr<std::vector<std::string>> Meet(std::string_view bytes);
  // Likewise of numbers.
  absl::StatusOr<std::vector<std::vector<double>>> Gather(std::span<const double> mine);

 private:
  NodeLink* const link_;
  const absl::Duration patience_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_NODE_TENSOR_MEETING_H_
