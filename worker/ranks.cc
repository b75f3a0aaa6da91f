#include "worker/ranks.h"

#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/log/log.h"
#include "worker/node/collective_tensors.h"
#include "worker/node/shared_tensors.h"

namespace longwave {
namespace {

// Until the run begins, ranks wait for each other as long as they live: one may read the data from
// a slow disk.
constexpr absl::Duration kStartPatience = absl::Hours(24);

}  // namespace

absl::StatusOr<Ranks> Ranks::Open(const std::string& place, const std::vector<std::string>& command,
                                  const std::function<absl::StatusOr<RunConfig>()>& load) {
  std::unique_ptr<NodeProcesses> node;
  if (!place.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(node, NodeProcesses::Join(place));
    // Rank 0 alone says what all ranks have to say.
    SetLogLevel(LogLevel::kWarning);
    // The configuration may come from the coordinator, which rank 0 alone calls.
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                              node->link().AllGather("", kStartPatience));
    LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, ParseConfig(texts[0], "rank 0's configuration"));
    return Ranks(std::move(config), std::move(node));
  }
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, load());
  if (config.train.ranks > 1) {
    LONGWAVE_ASSIGN_OR_RETURN(node,
                              NodeProcesses::Start(config.train.ranks, command,
                                                   SharedTensors::AreaBytes(config.train.ranks)));
    LONGWAVE_RETURN_IF_ERROR(node->link().AllGather(FormatConfig(config), kStartPatience).status());
  }
  return Ranks(std::move(config), std::move(node));
}

absl::Status Ranks::Agree(const absl::Status& mine) const {
  if (node_ == nullptr) return mine;
  const absl::StatusOr<std::vector<std::string>> all =
      node_->link().AllGather(std::string(mine.message()), kStartPatience);
  LONGWAVE_RETURN_IF_ERROR(mine);
  LONGWAVE_RETURN_IF_ERROR(all.status());
  for (size_t r = 0; r < all->size(); ++r) {
    if (!(*all)[r].empty()) return Aborted("rank ", r, " of this node: ", (*all)[r]);
  }
  return absl::OkStatus();
}

absl::Status Ranks::AgreeOnDevice(const absl::StatusOr<Device>& mine) const {
  LONGWAVE_RETURN_IF_ERROR(Agree(mine.status()));
  if (node_ == nullptr) return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      node_->link().AllGather(mine->ops->on_device ? "cuda" : "cpu", kStartPatience));
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0]) {
      return FailedPrecondition("rank ", r, " of this node computes on ", all[r], " and rank 0 on ",
                                all[0], ", wanted one kind of train.device for all");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NodeTensors>> Ranks::OpenTensors(const Layout* layout,
                                                                const KernelOps* ops, Exec exec,
                                                                Metrics* metrics,
                                                                OpenCollective& open_gloo) const {
  if (node_ == nullptr) return nullptr;
  const absl::Duration patience = absl::Seconds(config_.cluster.heartbeat_timeout_s);
  Counter* const seconds = metrics == nullptr
                               ? nullptr
                               : &metrics->counter("longwave_worker_node_tensors_seconds_total");
  if (config_.train.collectives == "gloo") {
    LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Collective> gloo, open_gloo(node_->link(), patience));
    return std::make_unique<CollectiveTensors>(TensorMeeting(&node_->link(), patience),
                                               std::move(gloo), layout, ops, exec,
                                               SharedTensors::kBlock, seconds);
  }
  return std::make_unique<SharedTensors>(&node_->link(), node_->area(), layout, ops, exec, patience,
                                         SharedTensors::kBlock, seconds);
}

bool ReportsError(uint32_t rank, const absl::Status& ended) {
  if (rank == 0) return true;
  // Aborted: the coordinator's reason, which all ranks have.
  return !absl::IsUnavailable(ended) && !absl::IsAborted(ended) &&
         !absl::StartsWith(ended.message(), "rank ");
}

}  // namespace longwave
