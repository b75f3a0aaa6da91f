#ifndef LONGWAVE_WORKER_ABI_ABI_NODE_LINK_H_
#define LONGWAVE_WORKER_ABI_ABI_NODE_LINK_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/abi/include/longwave.h"
#include "worker/member/node_link.h"

namespace longwave {

// A node's link by the loop's all_gather, which gathers as many bytes of each rank.
class AbiNodeLink final : public NodeLink {
 public:
  explicit AbiNodeLink(const lw_node& node) : node_(node) {}
  NodeRank node() const override { return {.rank = node_.rank, .ranks = node_.ranks}; }
  absl::StatusOr<std::vector<std::string>> AllGather(std::string_view mine,
                                                     absl::Duration patience) override;

 private:
  // The bytes of all ranks, one after the other.
  absl::StatusOr<std::string> Gather(std::string_view mine, absl::Duration patience) const;

  const lw_node node_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_ABI_NODE_LINK_H_
