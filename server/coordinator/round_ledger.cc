#include "server/coordinator/round_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longwave {

std::string Describe(const Member& member) {
  return absl::StrCat("worker ", member.worker, " (", member.name, ")");
}

absl::Status RoundLedger::Check(const Member& member, std::span<const RoundReport> reports) const {
  const auto next = next_round_.find(member.worker);
  uint64_t wanted = next == next_round_.end() ? member.first_round : next->second;
  std::optional<size_t> segment_count = segment_count_;
  for (const RoundReport& report : reports) {
    if (report.round < wanted) continue;
    if (report.round >= round_count_) {
      return absl::InvalidArgumentError(absl::StrCat(Describe(member), " reported round ",
                                                     report.round, ", wanted a round below ",
                                                     round_count_));
    }
    if (report.round > wanted) {
      return absl::InvalidArgumentError(absl::StrCat(
          Describe(member), " reported round ", report.round, ", wanted round ", wanted, " next"));
    }
    if (!report.segment_hashes.empty()) {
      if (!segment_count) segment_count = report.segment_hashes.size();
      if (report.segment_hashes.size() != *segment_count) {
        return absl::InvalidArgumentError(absl::StrCat(
            Describe(member), ", round ", report.round, ": ", report.segment_hashes.size(),
            " segment hashes, wanted ", *segment_count, " as the other reports have"));
      }
    }
    ++wanted;
  }
  return absl::OkStatus();
}

void RoundLedger::Add(const Member& member, std::span<const RoundReport> reports) {
  uint32_t& next = next_round_.try_emplace(member.worker, member.first_round).first->second;
  for (const RoundReport& report : reports) {
    if (report.round < next) continue;
    open_[report.round][member.worker] = {member, report};
    next = report.round + 1;
    if (!segment_count_ && !report.segment_hashes.empty()) {
      segment_count_ = report.segment_hashes.size();
    }
  }
}

std::vector<RoundRecord> RoundLedger::Finish(std::span<const Member> members, uint32_t validator,
                                             double seconds) {
  std::vector<RoundRecord> finished;
  while (!open_.empty()) {
    const auto first = open_.begin();
    // A round that nobody has reported yet stands between the records and this one.
    if (first->first != records_.size() + finished.size()) break;
    if (!IsComplete(first->first, members)) break;
    finished.push_back(MakeRecord(first->first, first->second, validator));
    open_.erase(first);
  }
  if (finished.empty()) return finished;

  const double elapsed = seconds - rate_seconds_;
  const uint64_t tokens = finished.back().tokens - rate_tokens_;
  for (RoundRecord& record : finished) {
    record.seconds = seconds;
    record.tokens_per_second = elapsed > 0 ? static_cast<double>(tokens) / elapsed : 0;
  }
  rate_seconds_ = seconds;
  rate_tokens_ = finished.back().tokens;
  records_.insert(records_.end(), finished.begin(), finished.end());
  return finished;
}

bool RoundLedger::IsComplete(uint32_t round, std::span<const Member> members) const {
  const auto& entries = open_.at(round);
  return std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return member.first_round > round || entries.contains(member.worker);
  });
}

RoundRecord RoundLedger::MakeRecord(uint32_t round, const std::map<uint32_t, Entry>& entries,
                                    uint32_t validator) {
  RoundRecord record;
  record.round = round;
  record.members = static_cast<uint32_t>(entries.size());
  double computing = 0;
  double syncing = 0;
  for (const auto& [worker, entry] : entries) {
    const RoundReport& report = entry.report;
    record.step = std::max(record.step, report.step);
    record.train_loss += report.train_loss / static_cast<double>(entries.size());
    if (worker == validator) record.validation_loss = report.validation_loss;
    Totals& totals = totals_[worker];
    computing += report.seconds_computing - totals.seconds_computing;
    syncing += report.seconds_syncing - totals.seconds_syncing;
    totals = {report.tokens, report.bytes, report.seconds_computing, report.seconds_syncing};
  }
  // Over everyone who ever reported: what a lost worker has done was done.
  for (const auto& [worker, totals] : totals_) {
    record.tokens += totals.tokens;
    record.bytes.pushed += totals.bytes.pushed;
    record.bytes.pulled += totals.bytes.pulled;
    record.bytes.payload_pushed += totals.bytes.payload_pushed;
    record.bytes.payload_pulled += totals.bytes.payload_pulled;
  }
  if (computing + syncing > 0) record.compute_share = computing / (computing + syncing);
  CompareHashes(entries, record);
  return record;
}

void RoundLedger::CompareHashes(const std::map<uint32_t, Entry>& entries, RoundRecord& record) {
  std::string difference;
  for (const auto& [worker, entry] : entries) {
    if (!entry.report.segment_hashes.empty()) continue;
    // Without hashes nothing is proved, so nothing is claimed.
    difference = absl::StrCat("round ", record.round, ": ", Describe(entry.member),
                              " reported no hashes, wanted one for each segment");
    break;
  }
  std::vector<uint64_t> wanted;
  if (difference.empty()) {
    const size_t segment_count = entries.begin()->second.report.segment_hashes.size();
    for (size_t segment = 0; segment < segment_count; ++segment) {
      std::map<uint64_t, uint32_t> votes;
      for (const auto& [worker, entry] : entries) ++votes[entry.report.segment_hashes[segment]];
      // The majority's value; on a tie the one that the lowest worker index holds.
      const Entry* majority = nullptr;
      for (const auto& [worker, entry] : entries) {
        const uint64_t hash = entry.report.segment_hashes[segment];
        if (majority == nullptr || votes[hash] > votes[majority->report.segment_hashes[segment]]) {
          majority = &entry;
        }
      }
      wanted.push_back(majority->report.segment_hashes[segment]);
      for (const auto& [worker, entry] : entries) {
        const uint64_t hash = entry.report.segment_hashes[segment];
        if (hash == wanted.back() || !difference.empty()) continue;
        difference = absl::StrFormat(
            "round %d: %s has hash %016x in segment %d, wanted %016x as %d of %d members have",
            record.round, Describe(entry.member), hash, segment, wanted.back(),
            votes[wanted.back()], entries.size());
      }
    }
    record.state_hash = CombineHashes(wanted);
  }
  record.replicas_equal = difference.empty();
  if (inequality_.empty()) inequality_ = difference;
}

}  // namespace longwave
