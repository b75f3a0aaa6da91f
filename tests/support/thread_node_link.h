#ifndef LONGWAVE_TESTS_SUPPORT_THREAD_NODE_LINK_H_
#define LONGWAVE_TESTS_SUPPORT_THREAD_NODE_LINK_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/member/node_link.h"

namespace longwave {

// A node whose ranks are threads of one process: AllGather is a barrier with a place for each rank.
class ThreadNode {
 public:
  explicit ThreadNode(uint32_t ranks) : places_(ranks) {}
  // The link of a rank. The rank has ended for the others once the link is destroyed. The node
  // outlives its links.
  std::unique_ptr<NodeLink> Link(uint32_t rank);
  // As if the rank's process were killed: no call of any rank succeeds from here on.
  void End(uint32_t rank);

 private:
  class Rank;
  absl::StatusOr<std::vector<std::string>> AllGather(uint32_t rank, std::string_view mine,
                                                     absl::Duration patience);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<std::string>> places_;
  std::vector<std::string> gathered_;  // of the last meeting
  uint64_t meetings_ = 0;
  absl::Status broken_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_THREAD_NODE_LINK_H_
