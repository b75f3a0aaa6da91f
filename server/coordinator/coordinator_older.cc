// A record from an older time, and the traces of a newer one.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/control/lost_rounds.h"
#include "server/coordinator/coordinator.h"

namespace longwave {
namespace {

// More epochs than another coordinator of the record can have begun.
constexpr uint32_t kEpochsSkipped = 1 << 20;

}  // namespace

std::string Coordinator::TraceIn(const ShardHeartbeat& heartbeat) const {
  const auto found = shards_.find(heartbeat.shard);
  const uint32_t told_epoch = found == shards_.end() ? 0 : found->second.told_epoch;
  if (!goes_on_ || is_over()) return "";
  if (heartbeat.known_epoch > told_epoch) {
    return absl::StrCat("shard ", heartbeat.shard, " knows a later epoch than ", told_epoch,
                        ", the last that this coordinator has told it");
  }
  if (!schedule_ || IsBeforeTaken(heartbeat.known_epoch)) return "";
  return schedule_->UndecidedOf(heartbeat);
}

std::string Coordinator::TraceIn(const WorkerHeartbeat& heartbeat) const {
  if (!goes_on_ || is_over() || has_finished_any_) return "";
  if (schedule_) {
    const absl::Status known =
        schedule_->CheckKnown(heartbeat, IsBeforeTaken(heartbeat.known_epoch));
    if (absl::IsUnavailable(known)) return std::string(known.message());
  }
  if (heartbeat.known_epoch <= membership_.epoch) return "";
  return absl::StrCat("worker ", heartbeat.worker, " knows epoch ", heartbeat.known_epoch,
                      ", wanted none after ", membership_.epoch);
}

std::string Coordinator::TraceIn(const RegisterWorker& request) const {
  // The worker was in the last of these rounds, so that all before it were closed.
  const uint64_t accounted = request.process >> 32;
  const uint64_t open_round = std::max(NewestRound(), ledger_.next_round());
  if (!goes_on_ || phase_ != RunPhase::kTraining || accounted <= open_round + 1 + kLostRoundsMax) {
    return "";
  }
  return absl::StrCat("the residual in the folder of worker ", request.name, " accounts for ",
                      accounted, " rounds, wanted at most ", open_round + 1,
                      ": no shard has opened a round after ", open_round);
}

void Coordinator::OnTrace(const std::string& trace, absl::Time now, Effects& effects) {
  if (!traced_at_) traced_at_ = now;
  // The figures of a record, and of a shard that has not its state yet, are from before.
  const bool all_heard = std::ranges::all_of(shards_, [&](const auto& entry) {
    const Shard& shard = entry.second;
    const bool restores = shard.restore && shard.state.newest_round == 0;
    return shard.heard > *traced_at_ && shard.known_epoch > 0 && shard.trouble.empty() && !restores;
  });
  if (all_heard && !has_finished_any_) return RefuseAll(trace, effects);
  effects.push_back(Refused{Unavailable(trace)});
}

void Coordinator::RefuseAll(const std::string& why, Effects& effects) {
  outdated_ = absl::StrCat("the coordinator's folder is from an older time: ", why,
                           "; nobody is answered until the coordinator is started again with its "
                           "newest folder, or with --take-as-newest");
  unsaved_ = true;
  effects.push_back(Refused{Unavailable(outdated_)});
  Note(effects, outdated_);
}

void Coordinator::TakeAsNewest() {
  outdated_.clear();
  // Whatever shards and workers know of other coordinators of this record comes before this epoch.
  membership_.epoch += kEpochsSkipped;
  for (auto& [index, shard] : shards_) {
    shard.told_epoch = membership_.epoch;
    shard.state.log_records = 0;
  }
  unsaved_ = true;
}

bool Coordinator::IsBeforeTaken(uint32_t epoch) const {
  // The record's later self may have begun some epochs more than the record has.
  return uint64_t{epoch} + kEpochsSkipped / 2 <= membership_.epoch;
}

}  // namespace longwave
