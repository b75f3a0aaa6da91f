#ifndef LONGWAVE_WORKER_MEMBER_NODE_LINK_H_
#define LONGWAVE_WORKER_MEMBER_NODE_LINK_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/wire/frame.h"

namespace longwave {

// The link between the ranks of a node, which are processes of one machine, or threads in tests.
// All ranks make the same calls in the same order. One thread calls at a time.
class NodeLink {
 public:
  virtual ~NodeLink() = default;
  virtual NodeRank node() const = 0;
  // Returns the bytes of each rank, by rank, once all ranks have called. Unavailable: a rank has
  // ended, or has not called within `patience`; later calls fail too.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(std::string_view mine,
                                                             absl::Duration patience) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_NODE_LINK_H_
