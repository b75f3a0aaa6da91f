#include "tests/bench/in_process/in_process.h"

#include <chrono>
#include <filesystem>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/layout/layout.h"
#include "tests/bench/in_process/nobody_watches.h"
#include "tests/support/plain_exchange.h"
#include "tests/support/sent_frame.h"
#include "worker/member/sync_options.h"
#include "worker/models/optimizers.h"
#include "worker/sync/pipeline.h"
#include "worker/trainer/trainer.h"

namespace longwave {
namespace {

constexpr uint64_t kRun = 1;

absl::StatusOr<Layout> LayoutFor(const RunConfig& config, const Replica& replica) {
  return Layout::Create(replica.manifest(), LayoutOptionsFor(config, replica.manifest()));
}

}  // namespace

class ShardInProcess::Connection final : public PlainExchange {
 public:
  Connection(ShardInProcess* shard, uint32_t worker) : shard_(*shard), worker_(worker) {}

  absl::Status Post(SegmentPush push) override { return shard_.Push(worker_, push); }
  absl::StatusOr<std::optional<Settled>> Next(absl::Duration timeout) override {
    return shard_.Next(worker_, timeout);
  }
  ByteCounts counts() const override { return {}; }

 private:
  ShardInProcess& shard_;
  const uint32_t worker_;
};

absl::StatusOr<std::unique_ptr<ShardInProcess>> ShardInProcess::Create(const RunConfig& config) {
  // Every worker derives the same layout from its own replica; the shard wants it before the first.
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Replica> replica,
      Replica::Create(config.model, config.train, config.run.seed, /*threads=*/1));
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout, LayoutFor(config, *replica));
  LONGWAVE_ASSIGN_OR_RETURN(Aggregator aggregator,
                            Aggregator::Create({.run = kRun,
                                                .run_seed = config.run.seed,
                                                .up = config.sync.up,
                                                .rho = config.sync.rho,
                                                .down = config.sync.down,
                                                .workers = config.run.workers,
                                                .weight_max = ContributionWeightMax(config),
                                                .clip = config.sync.clip,
                                                .fragments = config.sync.fragments},
                                               layout));
  Membership membership{.epoch = 1};
  for (uint32_t worker = 0; worker < config.run.workers; ++worker) {
    membership.members.push_back({.worker = worker, .name = absl::StrCat("worker", worker)});
  }
  aggregator.Step(MembershipChanged{membership}, absl::UnixEpoch());
  return std::unique_ptr<ShardInProcess>(
      new ShardInProcess(std::move(aggregator), config.run.workers));
}

std::unique_ptr<Exchange> ShardInProcess::Connect(uint32_t worker) {
  return std::make_unique<Connection>(this, worker);
}

void ShardInProcess::Fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = status;
  changed_.notify_all();
}

ByteCounts ShardInProcess::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

absl::Status ShardInProcess::Push(uint32_t worker, const SegmentPush& push) {
  PushFrame header{.run = kRun, .epoch = push.epoch};
  header.round = push.round;
  header.segment = push.segment;
  header.worker = worker;
  header.weight = push.weight;
  header.norm = push.norm;
  const std::lock_guard lock(mutex_);
  bytes_.payload_pushed += push.payload.size();
  for (const ShardEffect& effect :
       aggregator_.Step(PushArrived{header, push.payload}, absl::UnixEpoch())) {
    if (const auto answer = SentIn<AnswerFrame>(effect)) {
      if (answer->rejection != Rejection::kNone) return absl::InternalError(answer->reason());
    } else if (const auto merged = SentIn<MergedFrame>(effect)) {
      for (const uint32_t member : merged->workers) {
        bytes_.payload_pulled += merged->payload.size();
        settled_[member].push_back(
            {.round = push.round, .segment = push.segment, .merged = merged->payload});
      }
      changed_.notify_all();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Settled>> ShardInProcess::Next(uint32_t worker,
                                                            absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  std::vector<Settled>& settled = settled_[worker];
  changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                    [&] { return !settled.empty() || !failure_.ok(); });
  LONGWAVE_RETURN_IF_ERROR(failure_);
  if (settled.empty()) return std::nullopt;
  Settled next = std::move(settled.back());
  settled.pop_back();
  return next;
}

absl::StatusOr<TrainedInProcess> TrainInProcess(const RunConfig& config, const Device& device,
                                                const Corpus& data, uint32_t worker, bool validates,
                                                ShardInProcess* shard, const OpsAround& around) {
  const int threads = static_cast<int>(config.train.threads);
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Replica> replica,
      Replica::Create(config.model, config.train, config.run.seed, threads, device.kind));
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout, LayoutFor(config, *replica));
  const KernelOps* const ops = around(device.ops, *replica);
  const Exec exec = {.stream = device.stream, .threads = threads};
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<SyncPipeline> pipeline,
      SyncPipeline::Create(SyncOptionsOf(config.sync, config.run.seed), &layout, ops, exec,
                           {.theta = replica->theta(), .gradient = replica->gradient()}));
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<InnerOptimizer> optimizer,
                            MakeOptimizer(config.train, replica->manifest(), ops, exec));
  const std::unique_ptr<Exchange> exchange = shard->Connect(worker);
  NobodyWatches control(validates);
  Trainer trainer({.data = &data,
                   .replica = replica.get(),
                   .optimizer = optimizer.get(),
                   .run_dir = std::filesystem::temp_directory_path().string(),
                   .member = {.config = &config,
                              .layout = &layout,
                              .ops = ops,
                              .exec = exec,
                              .gradient = replica->gradient(),
                              .pipeline = pipeline.get(),
                              .exchange = exchange.get(),
                              .control = &control,
                              .worker = worker}});
  LONGWAVE_RETURN_IF_ERROR(trainer.Run().status());
  return TrainedInProcess{.parameters = replica->parameter_count(), .last = control.last};
}

}  // namespace longwave
