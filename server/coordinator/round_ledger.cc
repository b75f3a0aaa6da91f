#include "server/coordinator/round_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

// Whether the round has one report alone, while somebody else takes part who might have
// contradicted it. Whoever is the only one to say what its replica is proves nothing by that.
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
                  std::min(member.first_round, last_round()));
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
    if (report.round >= round_count_) {
      return absl::InvalidArgumentError(absl::StrCat(Describe(member), " reported round ",
                                                     report.round, ", wanted a round below ",
                                                     round_count_));
    }
    if (before != nullptr && report.round <= before->round) {
      return absl::InvalidArgumentError(absl::StrCat(Describe(member), " reported round ",
                                                     report.round, " after round ", before->round,
                                                     ", wanted them in order"));
    }
    before = &report;
    if (report.round < next && !report.again) continue;
    if (report.segment_hashes.size() != segment_count_) {
      return absl::InvalidArgumentError(absl::StrCat(
          Describe(member), ", round ", report.round, ": ", report.segment_hashes.size(),
          " segment hashes, wanted ", segment_count_, ", one for each segment"));
    }
    if (report.round >= uint64_t{closed_rounds_} + kRoundsAheadMax) {
      return absl::UnavailableError(absl::StrCat(Describe(member), " reported round ", report.round,
                                                 ", the shards have closed ", closed_rounds_,
                                                 " rounds as far as was heard; wanted at most ",
                                                 kRoundsAheadMax, " more"));
    }
  }
  return absl::OkStatus();
}

bool RoundLedger::Add(const Member& member, std::span<const RoundReport> reports) {
  bool is_new = false;
  for (const RoundReport& report : reports) {
    const bool is_last = report.round == last_round();
    const bool is_known = report.round < NextOf(member);
    if (is_last && (report.again || !is_known) && TakeAgain(member, report)) {
      is_new = true;
      continue;
    }
    if (is_known || (report.again && !is_last)) continue;
    is_new = true;
    LedgerWorker& worker = workers_[member.worker];
    worker.next_round = report.round + 1;
    if (!report.caught_up && !report.again) worker.taken_part = report.round + 1;
    worker.newest = {report.tokens, report.bytes, report.seconds_computing, report.seconds_syncing};
    worker.newest += worker.former;
    if (report.round < next_round_) continue;  // finished without it; its work counts all the same
    OpenReport& open = open_[report.round][member.worker];
    open = {member, report};
    // The one before was lost.
    open.report.caught_up |= std::exchange(open.report.again, false);
    open.report.tokens = worker.newest.tokens;
    open.report.bytes = worker.newest.bytes;
    open.report.seconds_computing = worker.newest.seconds_computing;
    open.report.seconds_syncing = worker.newest.seconds_syncing;
    unsaved_reports_.emplace_back(report.round, member.worker);
  }
  return is_new;
}

bool RoundLedger::TakeAgain(const Member& member, const RoundReport& report) {
  const auto reports = open_.find(report.round);
  if (reports == open_.end()) return false;
  const auto open = reports->second.find(member.worker);
  if (open == reports->second.end()) return false;
  open->second.report.segment_hashes = report.segment_hashes;
  workers_[member.worker].next_round = report.round + 1;
  unsaved_reports_.emplace_back(report.round, member.worker);
  return true;
}

RoundLedger::Reports RoundLedger::WithoutSuspects(const IsGone& is_gone) const {
  const auto found = open_.find(next_round_);
  if (found == open_.end()) return {};
  Reports left = found->second;
  for (const auto& [worker, segments] : CompareReplicas(left).suspects) {
    if (!segments.empty() && is_gone(worker)) left.erase(worker);
  }
  return left.empty() ? found->second : left;
}

std::vector<uint32_t> RoundLedger::Outvoted(const IsGone& is_gone) const {
  std::vector<uint32_t> outvoted;
  const Reports left = WithoutSuspects(is_gone);
  if (left.empty()) return outvoted;
  const ReplicaVote vote = CompareReplicas(left);
  for (const auto& [worker, segments] : vote.suspects) {
    // Whoever reported is a suspect in each undecided segment.
    if (segments.size() > vote.undecided.size() && !is_gone(worker)) outvoted.push_back(worker);
  }
  return outvoted;
}

bool RoundLedger::IsBehind(const Member& member, uint32_t rounds) const {
  if (member.first_round == kRoundNever) return false;
  const uint64_t newest = open_.empty() ? 0 : uint64_t{open_.rbegin()->first} + 1;
  const uint64_t end = std::max<uint64_t>(next_round_, std::min<uint64_t>(newest, closed_rounds_));
  return end > uint64_t{NextOf(member)} + rounds;
}

void RoundLedger::Restart(uint32_t worker) {
  if (const auto found = workers_.find(worker); found != workers_.end()) {
    found->second.former = found->second.newest;
    // It ends with another replica than the process before.
    found->second.next_round = std::min(found->second.next_round, last_round());
  }
}

uint32_t RoundLedger::TakenPart(uint32_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? 0 : found->second.taken_part;
}

bool RoundLedger::HasReportedEnd(uint32_t worker) const {
  const auto found = workers_.find(worker);
  return found != workers_.end() && found->second.next_round > last_round();
}

bool RoundLedger::ContradictsEnd(const RoundReport& report) const {
  if (report.round != last_round() || next_round_ <= report.round || rounds_.empty()) return false;
  const FinishedRound& newest = rounds_.back();
  return newest.record.round == report.round && !newest.hashes.empty() &&
         report.segment_hashes != newest.hashes;
}

void RoundLedger::SkipRest(uint32_t worker) {
  workers_[worker].next_round = static_cast<uint32_t>(round_count_);
}

std::vector<RoundOutcome> RoundLedger::Finish(std::span<const Member> members,
                                              std::optional<uint32_t> validator, double seconds,
                                              bool keeps_last, const IsGone& is_gone) {
  std::vector<RoundOutcome> outcomes;
  std::optional<RoundOutcome> kept;
  while (!open_.empty() && next_round_ < closed_rounds_ && IsOver(next_round_, members)) {
    const auto first = open_.begin();
    if (first->first == next_round_) {
      if (is_gone != nullptr && outcomes.empty()) first->second = WithoutSuspects(is_gone);
      ReplicaVote vote = CompareReplicas(first->second);
      if (keeps_last && uint64_t{next_round_} + 1 == round_count_ && !vote.difference.empty()) {
        if (inequality_.empty()) inequality_ = std::move(vote.difference);
        kept.emplace();
        kept->record.round = next_round_;
        kept->is_open = true;
        kept->suspects = std::move(vote.suspects);
        break;
      }
      FinishedRound round = MakeRecord(next_round_, first->second, validator);
      round.record.replicas_equal = vote.difference.empty();
      if (!vote.hashes.empty()) round.record.state_hash = CombineHashes(vote.hashes);
      if (vote.difference.empty()) {
        inequality_.clear();
      } else if (inequality_.empty()) {
        inequality_ = std::move(vote.difference);
      }
      if (IsUnwitnessed(first->second, members)) {
        vote.hashes.clear();    // no snapshot is right for that
        vote.suspects.clear();  // and no replica mended
      }
      round.hashes = std::move(vote.hashes);
      round.undecided = std::move(vote.undecided);
      outcomes.push_back({.record = round.record, .suspects = std::move(vote.suspects)});
      rounds_.push_back(std::move(round));
      open_.erase(first);
    }
    ++next_round_;
  }
  if (outcomes.empty()) {
    if (kept) outcomes.push_back(*std::move(kept));
    return outcomes;
  }
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
  if (kept) outcomes.push_back(*std::move(kept));
  return outcomes;
}

bool RoundLedger::IsOver(uint32_t round, std::span<const Member> members) {
  const auto is_past = [&](const Member& member) {
    return member.first_round == kRoundNever || NextOf(member) > round;
  };
  // Whoever was waited for the last time is asked first: with many members most calls end here.
  if (waits_for_ < members.size() && !is_past(members[waits_for_])) return false;
  const auto late = std::ranges::find_if_not(members, is_past);
  waits_for_ = static_cast<size_t>(late - members.begin());
  return late == members.end();
}

FinishedRound RoundLedger::MakeRecord(uint32_t round, const Reports& reports,
                                      std::optional<uint32_t> validator) {
  FinishedRound finished;
  RoundRecord& record = finished.record;
  record.round = round;
  // Who has only caught up with it had no part in it, and has no loss of it.
  const auto had_part = [](const auto& each) { return !each.second.report.caught_up; };
  const auto parts = std::ranges::count_if(reports, had_part);
  record.members = static_cast<uint32_t>(parts);
  if (parts == 0 && !rounds_.empty()) record.train_loss = rounds_.back().record.train_loss;
  double computing = 0;
  double syncing = 0;
  for (const auto& [worker, open] : reports) {
    const RoundReport& report = open.report;
    record.step = std::max(record.step, report.step);
    if (!report.caught_up) record.train_loss += report.train_loss / static_cast<double>(parts);
    if (worker == validator) record.validation_loss = report.validation_loss;
    WorkTotals& counted = workers_[worker].counted;
    computing += std::max(0.0, report.seconds_computing - counted.seconds_computing);
    syncing += std::max(0.0, report.seconds_syncing - counted.seconds_syncing);
    counted = {report.tokens, report.bytes, report.seconds_computing, report.seconds_syncing};
  }
  // Over everyone who ever reported: what a lost worker has done was done.
  WorkTotals sum;
  for (const auto& [worker, ledger] : workers_) sum += ledger.counted;
  record.tokens = sum.tokens;
  record.bytes = sum.bytes;
  if (computing + syncing > 0) record.compute_share = computing / (computing + syncing);
  return finished;
}

std::optional<bool> RoundLedger::Judge(const SnapshotHash& snapshot) const {
  if (snapshot.round > next_round_) return std::nullopt;
  const auto round = std::ranges::lower_bound(
      rounds_, uint64_t{snapshot.round}, {},
      [](const FinishedRound& finished) { return uint64_t{finished.record.round} + 1; });
  if (round == rounds_.end() || round->record.round + 1 != snapshot.round) return false;
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
