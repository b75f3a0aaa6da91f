#ifndef LONGWAVE_WORKER_NODE_COLLECTIVE_H_
#define LONGWAVE_WORKER_NODE_COLLECTIVE_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/member/node_link.h"

namespace longwave {

// The all-to-all exchange of a collective communication library among the ranks of a node. All
// ranks make the same calls in the same order.
class Collective {
 public:
  virtual ~Collective() = default;
  // Arrays in host memory, in which the elements for rank 0 (or from it) come first, then those
  // for rank 1, …; the counts by rank say how many. Unavailable: a rank has ended, or has not
  // called within the patience; later calls fail too.
  virtual absl::Status AllToAll(std::span<float> sent, std::span<const int64_t> sent_counts,
                                std::span<float> received,
                                std::span<const int64_t> received_counts) = 0;
};

// Opens the exchange of a node; all ranks call.
using OpenCollective = absl::StatusOr<std::unique_ptr<Collective>>(NodeLink& link,
                                                                   absl::Duration patience);

// The exchange of c10d's process group over gloo (LibTorch), between processes or threads of one
// machine, which find each other by the link. Unimplemented: the build is without LibTorch, or
// without gloo's headers.
OpenCollective OpenGloo;

}  // namespace longwave

#endif  // LONGWAVE_WORKER_NODE_COLLECTIVE_H_
