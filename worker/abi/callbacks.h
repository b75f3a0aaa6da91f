#ifndef LONGWAVE_WORKER_ABI_CALLBACKS_H_
#define LONGWAVE_WORKER_ABI_CALLBACKS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/abi/include/longwave.h"
#include "worker/member/node_link.h"
#include "worker/member/stop_signal.h"

namespace longwave {

// Calls the caller's `interrupted` callback, on the caller's thread, while a call waits. A Python
// program notices Ctrl-C only there.
class Interruptible {
 public:
  Interruptible(const lw_callbacks& callbacks, StopSignal* stop)
      : callbacks_(callbacks), stop_(stop) {}

  // Called repeatedly while waiting. Calls back about twenty times a second, or at once, and sets
  // the stop signal if the caller wants the call to end.
  void Ask(bool at_once = false);

  // Runs `work`, which checks the stop signal, on another thread, and calls back meanwhile.
  absl::Status Run(absl::FunctionRef<absl::Status()> work);

 private:
  const lw_callbacks callbacks_;
  StopSignal* const stop_;
  absl::Time asked_ = absl::InfinitePast();
};

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

#endif  // LONGWAVE_WORKER_ABI_CALLBACKS_H_
