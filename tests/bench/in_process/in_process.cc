#include "tests/bench/in_process/in_process.h"

#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "tests/support/plain_exchange.h"
#include "tests/support/sent_frame.h"

namespace longwave {
namespace {

constexpr uint64_t kRun = 1;

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

absl::StatusOr<std::unique_ptr<ShardInProcess>> ShardInProcess::Create(const RunConfig& config,
                                                                       const Layout& layout) {
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

}  // namespace longwave
