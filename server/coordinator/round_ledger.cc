#include "server/coordinator/round_ledger.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/errors.h"

namespace longwave {
namespace {

// Whether only one member has reported the round while another takes part that could have
// contradicted it. A single report proves nothing about its own replica.
bool IsUnwitnessed(const std::map<uint32_t, OpenReport>& reports, std::span<const Member> members) {
  if (reports.size() != 1) return false;
  const auto& [only, open] = *reports.begin();
  return std::ranges::any_of(members,
                             [only = only, round = open.report.round](const Member& member) {
                               return member.worker != only && member.first_round <= round;
                             });
}

}  // namespace

RoundLedger::RoundLedger(uint64_t round_count, const CoordinatorRecord& record)
    : round_count_(round_count),
      next_round_(record.state.next_round),
      closed_rounds_(record.state.next_round),
      workers_(record.state.ledger_workers.begin(), record.state.ledger_workers.end()),
      segment_count_(record.state.segment_count),
      rounds_(record.rounds),
      inequality_(record.state.inequality),
      rate_seconds_(record.state.rate_seconds),
      rate_tokens_(record.state.rate_tokens),
      saved_rounds_(record.rounds.size()) {
  for (const OpenReport& open : record.reports) {
    open_[open.report.round].emplace(open.member.worker, open);
  }
}

uint32_t RoundLedger::NextOf(const Member& member) const {
  const auto found = workers_.find(member.worker);
  return std::max(found == workers_.end() ? 0 : found->second.next_round,
                  std::min(member.first_round, round_count()));
}

bool RoundLedger::SetClosedRounds(uint32_t rounds) {
  if (rounds <= closed_rounds_) return false;
  closed_rounds_ = rounds;
  return true;
}

absl::Status RoundLedger::Check(const Member& member, std::span<const RoundReport> reports) const {
  const uint32_t next = NextOf(member);
  const RoundReport* before = nullptr;
  for (const RoundReport& report : reports) {
    if (before != nullptr && report.round <= before->round && report.round < round_count_) {
      return InvalidArgument(Describe(member), " reported round ", report.round, " after round ",
                             before->round, ", wanted them in order");
    }
    before = &report;
    if (report.round < std::min(next, round_count())) continue;
    if (report.segment_hashes.size() != segment_count_) {
      return InvalidArgument(Describe(member), ", round ", report.round, ": ",
                             report.segment_hashes.size(), " segment hashes, wanted ",
                             segment_count_, ", one for each segment");
    }
    if (std::min(report.round, round_count()) >= uint64_t{closed_rounds_} + kRoundsAheadMax) {
      return Unavailable(Describe(member), " reported round ", report.round,
                         ", the shards have closed ", closed_rounds_,
                         " rounds as far as was heard; wanted at most ", kRoundsAheadMax, " more");
    }
  }
  return absl::OkStatus();
}

bool RoundLedger::Add(const Member& member, std::span<const RoundReport> reports) {
  bool is_new = false;
  for (const RoundReport& report : reports) {
    const uint32_t round = std::min(report.round, sealing_round());
    const bool was_sealed = round >= round_count_ && round < next_round_;
    if (round < NextOf(member) || was_sealed) continue;
    is_new = true;
    LedgerWorker& worker = workers_[member.worker];
    worker.next_round = round + 1;
    if (round < round_count_) worker.taken_part = round + 1;
    worker.newest = Sum(WorkOf(report), worker.former);
    // The round finished without this report; its work counts all the same.
    if (round < next_round_) continue;
    OpenReport& open = open_[round][member.worker];
    open = {member, report};
    open.report.round = round;
    SetWork(worker.newest, &open.report);
    unsaved_reports_.emplace_back(round, member.worker);
  }
  return is_new;
}

bool RoundLedger::IsBehind(const Member& member, uint32_t rounds) const {
  if (member.first_round == kRoundNever) return false;
  const uint64_t newest = open_.empty() ? 0 : uint64_t{open_.rbegin()->first} + 1;
  const uint64_t end = std::max<uint64_t>(next_round_, std::min<uint64_t>(newest, closed_rounds_));
  return std::min(end, round_count_) > uint64_t{NextOf(member)} + rounds;
}

void RoundLedger::Restart(uint32_t worker) {
  if (const auto found = workers_.find(worker); found != workers_.end()) {
    found->second.former = found->second.newest;
    // The new process ends with a replica of its own.
    found->second.next_round = std::min(found->second.next_round, round_count());
  }
}

bool RoundLedger::BeginCount(uint32_t worker, const WorkTotals& said, const WorkTotals& done) {
  LedgerWorker ledger;
  if (const auto found = workers_.find(worker); found != workers_.end()) ledger = found->second;
  const WorkTotals former = Rest(Most(done, ledger.newest), said);
  if (former == ledger.former) return false;
  ledger.former = former;
  workers_[worker] = ledger;
  return true;
}

WorkTotals RoundLedger::WholeWork(uint32_t worker, const WorkTotals& said) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? said : Sum(said, found->second.former);
}

uint32_t RoundLedger::TakenPart(uint32_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? 0 : found->second.taken_part;
}

bool RoundLedger::HasReported(uint32_t worker, uint32_t round) const {
  const auto found = workers_.find(worker);
  return found != workers_.end() && found->second.next_round > round;
}

bool RoundLedger::IsSealed(std::span<const Member> members, bool are_equal) const {
  if (next_round_ <= round_count_ || (are_equal && !replicas_equal())) return false;
  const auto is_due = [](const Member& member) { return member.first_round != kRoundNever; };
  // A member that joined late has reported the next sealing round, not the finished one.
  return std::ranges::any_of(members, is_due) &&
         std::ranges::all_of(members, [&](const Member& member) {
           return !is_due(member) || NextOf(member) == next_round_;
         });
}

bool RoundLedger::IsLastLacking() const {
  return next_round_ >= round_count_ &&
         (rounds_.empty() || uint64_t{rounds_.back().record.round} + 1 < round_count_);
}

std::span<const FinishedRound> RoundLedger::rounds() const {
  const auto end = std::ranges::lower_bound(
      rounds_, round_count_, {},
      [](const FinishedRound& finished) { return uint64_t{finished.record.round}; });
  return {rounds_.begin(), end};
}

std::vector<RoundOutcome> RoundLedger::Finish(std::span<const Member> members,
                                              std::optional<uint32_t> validator, double seconds) {
  std::vector<RoundOutcome> outcomes;
  while (!open_.empty() && IsClosed(next_round_) && IsOver(next_round_, members)) {
    const auto first = open_.begin();
    if (first->first == next_round_) {
      if (next_round_ >= round_count_) DropUndue(first->second, members);
      if (first->second.empty()) {
        std::erase_if(unsaved_reports_, [&](const auto& key) { return key.first == next_round_; });
        open_.erase(first);
        break;
      }
      ReplicaVote vote = CompareReplicas(first->second);
      std::vector<RoundWork> work;
      FinishedRound round = MakeRecord(next_round_, first->second, validator, &work);
      if (IsLastLacking()) round.record.round = round_count() - 1;
      round.record.replicas_equal = vote.difference.empty();
      if (!vote.hashes.empty()) round.record.state_hash = CombineHashes(vote.hashes);
      if (vote.difference.empty()) {
        inequality_.clear();
      } else if (inequality_.empty()) {
        inequality_ = std::move(vote.difference);
      }
      if (IsUnwitnessed(first->second, members)) {
        vote.hashes.clear();    // no snapshot is proved
        vote.suspects.clear();  // no replica is repaired
      }
      round.hashes = std::move(vote.hashes);
      round.undecided = std::move(vote.undecided);
      outcomes.push_back({.round = next_round_,
                          .record = round.record,
                          .suspects = std::move(vote.suspects),
                          .undecided = round.undecided.size(),
                          .equal_losses = EqualLossesOf(first->second),
                          .work = std::move(work)});
      rounds_.push_back(std::move(round));
      open_.erase(first);
    }
    ++next_round_;
  }
  if (outcomes.empty()) return outcomes;
  const double elapsed = seconds - rate_seconds_;
  const uint64_t now_tokens = outcomes.back().record.tokens;
  const uint64_t tokens = now_tokens - std::min(now_tokens, rate_tokens_);
  const size_t from = rounds_.size() - outcomes.size();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    RoundRecord& record = outcomes[i].record;
    record.seconds = seconds;
    record.tokens_per_second = elapsed > 0 ? static_cast<double>(tokens) / elapsed : 0;
    rounds_[from + i].record = record;
  }
  rate_seconds_ = seconds;
  rate_tokens_ = now_tokens;
  ForgetOldHashes(&rounds_, from);
  std::erase_if(unsaved_reports_, [&](const auto& key) { return key.first < next_round_; });
  return outcomes;
}

void RoundLedger::DropUndue(Reports& reports, std::span<const Member> members) {
  std::erase_if(reports, [&](const auto& entry) {
    const auto member = std::ranges::find(members, entry.first, &Member::worker);
    const bool is_due = member != members.end() && member->first_round != kRoundNever;
    if (!is_due) workers_[entry.first].next_round = round_count();
    return !is_due;
  });
}

std::vector<std::vector<uint32_t>> RoundLedger::EqualLossesOf(const Reports& reports) {
  if (next_round_ >= round_count_) return {};  // without inner steps
  std::map<uint32_t, double> losses;
  for (const auto& [worker, open] : reports) {
    if (open.report.train_loss) losses.emplace(worker, *open.report.train_loss);
  }
  return equal_losses_.Take(losses);
}

bool RoundLedger::IsOver(uint32_t round, std::span<const Member> members) {
  const auto is_past = [&](const Member& member) {
    return member.first_round == kRoundNever || NextOf(member) > round;
  };
  // The check starts with the member that the last call waited for, which ends most calls early
  // where there are many members.
  if (waits_for_ < members.size() && !is_past(members[waits_for_])) return false;
  const auto late = std::ranges::find_if_not(members, is_past);
  waits_for_ = static_cast<size_t>(late - members.begin());
  return late == members.end();
}

FinishedRound RoundLedger::MakeRecord(uint32_t round, const Reports& reports,
                                      std::optional<uint32_t> validator,
                                      std::vector<RoundWork>* work) {
  FinishedRound finished;
  RoundRecord& record = finished.record;
  record.round = round;
  const bool seals = round >= round_count_;
  if (!seals) record.members = static_cast<uint32_t>(reports.size());
  if (seals && !rounds_.empty()) record.train_loss = rounds_.back().record.train_loss;
  double computing = 0;
  double syncing = 0;
  const auto losses = std::ranges::count_if(
      reports, [](const auto& entry) { return entry.second.report.train_loss.has_value(); });
  for (const auto& [worker, open] : reports) {
    const RoundReport& report = open.report;
    record.step = std::max(record.step, report.step);
    if (!seals && report.train_loss) {
      record.train_loss =
          record.train_loss.value_or(0) + *report.train_loss / static_cast<double>(losses);
    }
    if (worker == validator) record.validation_loss = report.validation_loss;
    WorkTotals& counted = workers_[worker].counted;
    const RoundWork& own = work->emplace_back(RoundWork{
        .worker = worker,
        .seconds_computing = std::max(0.0, report.seconds_computing - counted.seconds_computing),
        .seconds_syncing = std::max(0.0, report.seconds_syncing - counted.seconds_syncing)});
    computing += own.seconds_computing;
    syncing += own.seconds_syncing;
    counted = WorkOf(report);
  }
  // Over every worker that ever reported, since the work of a lost worker was done.
  WorkTotals sum;
  for (const auto& [worker, ledger] : workers_) sum = Sum(sum, ledger.counted);
  record.tokens = sum.tokens;
  record.bytes = sum.bytes;
  // A member may report any finite seconds, whose sum need not be finite.
  if (const double total = computing + syncing; total > 0 && std::isfinite(total))
    record.compute_share = computing / total;
  return finished;
}

std::optional<bool> RoundLedger::Judge(const SnapshotHash& snapshot) const {
  if (snapshot.round > next_round_) return std::nullopt;
  // A sealing round's replica is the one before the round after the last.
  const auto before = [this](const FinishedRound& finished) {
    return std::min(uint64_t{finished.record.round} + 1, round_count_);
  };
  const auto after = std::ranges::upper_bound(rounds_, uint64_t{snapshot.round}, {}, before);
  if (after == rounds_.begin()) return false;
  const auto round = std::prev(after);
  if (before(*round) != snapshot.round) return false;
  if (snapshot.segment >= round->hashes.size()) return false;
  if (std::ranges::binary_search(round->undecided, snapshot.segment)) return false;
  return round->hashes[snapshot.segment] == snapshot.hash;
}

void RoundLedger::ExportState(CoordinatorState* state) const {
  state->next_round = next_round_;
  state->ledger_workers.assign(workers_.begin(), workers_.end());
  state->segment_count = segment_count_;
  state->inequality = inequality_;
  state->rate_seconds = rate_seconds_;
  state->rate_tokens = rate_tokens_;
}

void RoundLedger::Export(CoordinatorRecord* record) const {
  ExportState(&record->state);
  record->rounds = rounds_;
  record->reports.clear();
  for (const auto& [round, reports] : open_) {
    for (const auto& [worker, open] : reports) record->reports.push_back(open);
  }
}

void RoundLedger::ExportUnsaved(CoordinatorChanges* changes) const {
  changes->rounds.assign(rounds_.begin() + static_cast<ptrdiff_t>(saved_rounds_), rounds_.end());
  changes->reports.clear();
  for (const auto& [round, worker] : unsaved_reports_) {
    changes->reports.push_back(open_.at(round).at(worker));
  }
}

void RoundLedger::Saved() {
  saved_rounds_ = rounds_.size();
  unsaved_reports_.clear();
}

}  // namespace longwave
