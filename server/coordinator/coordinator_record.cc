#include "server/coordinator/coordinator_record.h"

#include <algorithm>
#include <utility>

namespace longwave {

WorkTotals& WorkTotals::operator+=(const WorkTotals& other) {
  tokens += other.tokens;
  bytes.pushed += other.bytes.pushed;
  bytes.pulled += other.bytes.pulled;
  bytes.payload_pushed += other.bytes.payload_pushed;
  bytes.payload_pulled += other.bytes.payload_pulled;
  seconds_computing += other.seconds_computing;
  seconds_syncing += other.seconds_syncing;
  return *this;
}

void ForgetOldHashes(std::vector<FinishedRound>* rounds, size_t from) {
  if (rounds->size() <= kRoundsWithHashes) return;
  const size_t end = rounds->size() - kRoundsWithHashes;
  for (size_t i = from > kRoundsWithHashes ? from - kRoundsWithHashes : 0; i < end; ++i) {
    (*rounds)[i].hashes = {};
    (*rounds)[i].undecided = {};
  }
}

CoordinatorChanges ChangesFromNothing(CoordinatorRecord record) {
  return {.state = std::move(record.state),
          .manifest_changed = true,
          .manifest = std::move(record.manifest),
          .start_hashes = std::move(record.start_hashes),
          .rounds = std::move(record.rounds),
          .reports = std::move(record.reports)};
}

void Apply(const CoordinatorChanges& changes, CoordinatorRecord* record) {
  record->state = changes.state;
  if (changes.manifest_changed) {
    record->manifest = changes.manifest;
    record->start_hashes = changes.start_hashes;
  }
  const size_t from = record->rounds.size();
  record->rounds.insert(record->rounds.end(), changes.rounds.begin(), changes.rounds.end());
  ForgetOldHashes(&record->rounds, from);

  std::vector<OpenReport>& reports = record->reports;
  std::erase_if(reports, [&](const OpenReport& open) {
    return open.report.round < changes.state.next_round;
  });
  const auto key = [](const OpenReport& open) {
    return std::pair(open.report.round, open.member.worker);
  };
  for (const OpenReport& added : changes.reports) {
    const auto at = std::ranges::lower_bound(reports, key(added), {}, key);
    if (at != reports.end() && key(*at) == key(added)) {
      *at = added;
    } else {
      reports.insert(at, added);
    }
  }
}

}  // namespace longwave
