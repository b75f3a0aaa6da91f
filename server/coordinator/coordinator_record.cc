#include "server/coordinator/coordinator_record.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace longwave {
namespace {

template <typename Function>
WorkTotals EachOf(const WorkTotals& a, const WorkTotals& b, Function function) {
  return {.tokens = function(a.tokens, b.tokens),
          .bytes = {.pushed = function(a.bytes.pushed, b.bytes.pushed),
                    .pulled = function(a.bytes.pulled, b.bytes.pulled),
                    .payload_pushed = function(a.bytes.payload_pushed, b.bytes.payload_pushed),
                    .payload_pulled = function(a.bytes.payload_pulled, b.bytes.payload_pulled)},
          .seconds_computing = function(a.seconds_computing, b.seconds_computing),
          .seconds_syncing = function(a.seconds_syncing, b.seconds_syncing)};
}

}  // namespace

WorkTotals Sum(const WorkTotals& a, const WorkTotals& b) {
  return EachOf(a, b, []<typename T>(T x, T y) {
    return y > std::numeric_limits<T>::max() - x ? std::numeric_limits<T>::max() : x + y;
  });
}

WorkTotals Rest(const WorkTotals& of, const WorkTotals& without) {
  return EachOf(of, without, []<typename T>(T x, T y) { return x > y ? x - y : T{0}; });
}

WorkTotals Most(const WorkTotals& a, const WorkTotals& b) {
  return EachOf(a, b, []<typename T>(T x, T y) { return std::max(x, y); });
}

void ForgetOldHashes(std::vector<FinishedRound>* rounds, size_t from) {
  if (rounds->size() <= kRoundsWithHashes) return;
  const size_t end = rounds->size() - kRoundsWithHashes;
  for (size_t i = from > kRoundsWithHashes ? from - kRoundsWithHashes : 0; i < end; ++i) {
    // `= {}` would keep the memory.
    (*rounds)[i].hashes = std::vector<uint64_t>();
    (*rounds)[i].undecided = std::vector<uint32_t>();
  }
}

CoordinatorChanges ChangesFromNothing(CoordinatorRecord record) {
  return {.state = std::move(record.state),
          .manifest_changed = true,
          .manifest = std::move(record.manifest),
          .start_hashes = std::move(record.start_hashes),
          .rounds = std::move(record.rounds),
          .reports = std::move(record.reports),
          .intervals = record.intervals.changes.empty()
                           ? std::nullopt
                           : std::optional(std::move(record.intervals))};
}

void Apply(const CoordinatorChanges& changes, CoordinatorRecord* record) {
  record->state = changes.state;
  if (changes.manifest_changed) {
    record->manifest = changes.manifest;
    record->start_hashes = changes.start_hashes;
  }
  if (changes.intervals.has_value()) record->intervals = *changes.intervals;
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
