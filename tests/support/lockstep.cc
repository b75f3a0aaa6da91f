#include "tests/support/lockstep.h"

#include <numeric>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longwave {

absl::StatusOr<std::unique_ptr<Lockstep>> Lockstep::Create(
    const Manifest& manifest, const LayoutOptions& layout_options, const SyncOptions& sync,
    AggregatorOptions aggregation, uint32_t workers, std::span<const float> start) {
  LONGWAVE_ASSIGN_OR_RETURN(Layout layout, Layout::Create(manifest, layout_options));
  std::unique_ptr<Lockstep> cluster(new Lockstep(std::move(layout)));
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(BackendKind::kCpu));
  Membership membership{.epoch = 1, .members = {}};
  for (uint32_t i = 0; i < workers; ++i) {
    cluster->theta_.emplace_back(start.begin(), start.end());
    cluster->gradient_.emplace_back(start.size());
    const ReplicaView replica = {cluster->theta_[i].data(), cluster->gradient_[i].data()};
    LONGWAVE_ASSIGN_OR_RETURN(auto pipeline,
                              SyncPipeline::Create(sync, &cluster->layout_, ops, Exec{}, replica));
    cluster->pipelines_.push_back(std::move(pipeline));
    membership.members.push_back({.worker = i, .name = absl::StrCat("worker-", i)});
  }
  aggregation.run = 1;
  aggregation.run_seed = sync.run_seed;
  aggregation.up = sync.up;
  LONGWAVE_ASSIGN_OR_RETURN(Aggregator aggregator,
                            Aggregator::Create(aggregation, cluster->layout_));
  cluster->aggregator_ = std::make_unique<Aggregator>(std::move(aggregator));
  cluster->aggregator_->Step(MembershipChanged{membership}, absl::UnixEpoch());
  return cluster;
}

std::vector<uint32_t> Lockstep::InOrder() const {
  std::vector<uint32_t> order(workers());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

absl::Status Lockstep::Round(uint32_t round, double learning_rate) {
  return Round(round, learning_rate, InOrder());
}

absl::Status Lockstep::Round(uint32_t round, double learning_rate,
                             std::span<const uint32_t> order) {
  LONGWAVE_RETURN_IF_ERROR(Send(round, 0, learning_rate, order));
  return Apply();
}

absl::Status Lockstep::Send(uint32_t round, uint32_t fragment, double learning_rate) {
  return Send(round, fragment, learning_rate, InOrder());
}

absl::Status Lockstep::Send(uint32_t round, uint32_t fragment, double learning_rate,
                            std::span<const uint32_t> order) {
  merged_.clear();
  for (auto& pipeline : pipelines_) {
    LONGWAVE_RETURN_IF_ERROR(pipeline->BeginFragment(round, fragment, learning_rate));
  }
  for (const uint32_t worker : order) {
    const uint32_t fragments = pipelines_[worker]->fragment_count();
    for (uint32_t segment = fragment; segment < layout_.segments().size(); segment += fragments) {
      LONGWAVE_RETURN_IF_ERROR(Push(round, worker, segment));
    }
  }
  return absl::OkStatus();
}

absl::Status Lockstep::Push(uint32_t round, uint32_t worker, uint32_t segment) {
  LONGWAVE_ASSIGN_OR_RETURN(const SyncPipeline::Push push, pipelines_[worker]->Encode(segment));
  PushFrame header{.run = 1, .epoch = 1, .round = round};
  header.worker = worker;
  header.segment = segment;
  header.weight = 1;
  header.norm = push.norm;
  for (const ShardEffect& effect :
       aggregator_->Step(PushArrived{header, push.payload}, absl::UnixEpoch())) {
    if (const auto answer = SentIn<AnswerFrame>(effect)) {
      if (answer->header.outcome == Outcome::kAccepted) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(std::string(Name(answer->header.outcome)), ": ", answer->reason()));
    }
    if (auto merged = SentIn<MergedFrame>(effect)) merged_.push_back(*std::move(merged));
  }
  return absl::OkStatus();
}

absl::Status Lockstep::Apply() {
  for (auto& pipeline : pipelines_) {
    for (const auto& update : merged_) {
      LONGWAVE_RETURN_IF_ERROR(pipeline->Apply(update.header.segment, update.payload));
    }
    LONGWAVE_RETURN_IF_ERROR(pipeline->EndFragment());
  }
  return absl::OkStatus();
}

}  // namespace longwave
