// Conversion between a coordinator and its record.

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/control/longer_run.h"
#include "server/coordinator/coordinator.h"

namespace longwave {
namespace {

absl::Status Damaged(const auto&... what) {
  return DataLoss("the coordinator's record: ", what...);
}

absl::Status CheckMembers(const CoordinatorOptions& options, const CoordinatorState& state) {
  std::set<std::string> names;
  for (size_t i = 0; i < state.workers.size(); ++i) {
    const Member& member = state.workers[i].member;
    if (i > 0 && member.worker <= state.workers[i - 1].member.worker) {
      return Damaged("worker ", member.worker, " is out of order");
    }
    if (!names.insert(member.name).second) {
      return Damaged("two workers are named ", member.name);
    }
  }
  for (size_t i = 0; i < state.shards.size(); ++i) {
    const uint32_t shard = state.shards[i].address.shard;
    if (shard >= options.shards_wanted || (i > 0 && shard <= state.shards[i - 1].address.shard)) {
      return Damaged("shard ", shard, " is out of order, or not below ", options.shards_wanted);
    }
  }
  if (state.phase == RunPhase::kTraining && state.shards.size() != options.shards_wanted) {
    return Damaged(state.shards.size(), " shards in training, wanted ", options.shards_wanted);
  }
  return absl::OkStatus();
}

absl::Status CheckRounds(const CoordinatorOptions& options, const CoordinatorRecord& record) {
  const CoordinatorState& state = record.state;
  uint64_t next = 0;
  for (const FinishedRound& round : record.rounds) {
    if (round.record.round < next || round.record.round >= state.next_round) {
      return Damaged("finished round ", round.record.round, " is out of order");
    }
    next = uint64_t{round.record.round} + 1;
  }
  std::pair<uint64_t, uint64_t> least(state.next_round, 0);
  for (const OpenReport& open : record.reports) {
    const std::pair<uint64_t, uint64_t> key(open.report.round, open.member.worker);
    const uint64_t newest = std::max<uint64_t>(options.rounds, state.next_round);
    if (key < least || open.report.round > newest) {
      return Damaged("the report of round ", open.report.round, " by worker ", open.member.worker,
                     " is out of order");
    }
    least = {key.first, key.second + 1};
    if (!std::ranges::binary_search(
            state.workers, open.member.worker, {},
            [](const WorkerRecord& worker) { return worker.member.worker; })) {
      return Damaged("a report of worker ", open.member.worker, ", who is not in the record");
    }
    const size_t hashes = open.report.segment_hashes.size();
    if (hashes != state.segment_count) {
      return Damaged("a report with ", hashes, " segment hashes, wanted ", state.segment_count);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Coordinator::CheckRecord(const CoordinatorOptions& options,
                                      const CoordinatorRecord& record) {
  if (record.state.settings != options.settings &&
      !IsLongerRun(record.state.settings, options.settings)) {
    return FailedPrecondition(
        "the coordinator's record is of a run with other settings; wanted this run's");
  }
  if (!record.state.workers.empty() && !record.manifest) {
    return Damaged("it has workers, but no manifest");
  }
  if (!record.start_hashes.empty() && record.start_hashes.size() != record.state.segment_count) {
    return Damaged(record.start_hashes.size(), " hashes of the first weights, wanted ",
                   record.state.segment_count);
  }
  if (!std::isfinite(record.state.seconds) || record.state.seconds < 0) {
    return Damaged(record.state.seconds, " seconds of training");
  }
  if (absl::Status status = CheckMembers(options, record.state); !status.ok()) return status;
  if (options.interval.has_value()) {
    const absl::Status fits = RoundPlan(options.interval->steps).Extend(record.intervals);
    if (!fits.ok()) return Damaged(fits.message());
  }
  return CheckRounds(options, record);
}

Coordinator::Coordinator(const CoordinatorOptions& options, CoordinatorRecord record)
    : options_(options),
      phase_(record.state.phase),
      reason_(std::move(record.state.reason)),
      goes_on_(!options.takes_as_newest),
      outdated_(std::move(record.state.outdated)),
      run_(record.state.run),
      manifest_(std::move(record.manifest)),
      layout_hash_(record.state.layout_hash),
      start_hashes_(std::move(record.start_hashes)),
      ledger_(options.rounds, record),
      repairs_(record.state.repairs),
      warnings_(std::move(record.state.warnings)),
      seconds_before_(record.state.seconds) {
  if (options.interval) {
    schedule_.emplace(*options.interval, options.heartbeat_timeout);
    LONGWAVE_CHECK(schedule_->Continue(record.intervals).ok());
    ledger_.SetRoundCount(rounds());
  }
  for (WorkerRecord& one : record.state.workers) {
    Worker& worker = workers_[one.member.worker];
    static_cast<WorkerRecord&>(worker) = std::move(one);
    if (record.state.epoch > 0) PutMember(worker);
  }
  for (ShardRecord& one : record.state.shards) {
    Shard& shard = shards_[one.address.shard];
    static_cast<ShardRecord&>(shard) = std::move(one);
  }
  membership_.epoch = record.state.epoch;
  HearOfClosedRounds();
  if (options_.continues_failed && phase_ == RunPhase::kFailed) {
    phase_ = membership_.epoch == 0 ? RunPhase::kWaiting : RunPhase::kTraining;
    reason_.clear();
    unsaved_ = true;
  }
  if (options_.takes_as_newest && phase_ == RunPhase::kTraining) TakeAsNewest();
}

CoordinatorState Coordinator::ExportState(absl::Time now) const {
  CoordinatorState state;
  state.settings = options_.settings;
  state.phase = phase_;
  state.reason = reason_;
  state.outdated = outdated_;
  state.run = run_;
  state.epoch = membership_.epoch;
  state.layout_hash = layout_hash_;
  state.repairs = repairs_;
  state.warnings = warnings_;
  state.seconds = SecondsOfTraining(now);
  for (const auto& [index, worker] : workers_) state.workers.push_back(worker);
  for (const auto& [index, shard] : shards_) state.shards.push_back(shard);
  ledger_.ExportState(&state);
  return state;
}

CoordinatorRecord Coordinator::Export(absl::Time now) const {
  CoordinatorRecord record;
  ledger_.Export(&record);
  record.state = ExportState(now);
  record.manifest = manifest_;
  record.start_hashes = start_hashes_;
  if (schedule_) record.intervals = schedule_->plan().From(0);
  return record;
}

std::optional<CoordinatorChanges> Coordinator::Unsaved(absl::Time now) const {
  if (!unsaved_) return std::nullopt;
  CoordinatorChanges changes;
  changes.state = ExportState(now);
  changes.manifest_changed = manifest_unsaved_;
  if (manifest_unsaved_) {
    changes.manifest = manifest_;
    changes.start_hashes = start_hashes_;
  }
  if (intervals_unsaved_) changes.intervals = schedule_->plan().From(0);
  ledger_.ExportUnsaved(&changes);
  return changes;
}

void Coordinator::Saved() {
  unsaved_ = manifest_unsaved_ = intervals_unsaved_ = false;
  ledger_.Saved();
}

}  // namespace longwave
