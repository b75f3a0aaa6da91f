#ifndef LONGWAVE_COMMON_METRICS_METRIC_ROWS_H_
#define LONGWAVE_COMMON_METRICS_METRIC_ROWS_H_

#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "common/metrics/metric_table.h"

namespace longwave {

// Private to the table: builders of its rows. MetricTable() sets each row's part.

using Rows = std::vector<MetricRow>;
using Labels = std::vector<MetricLabel>;

Rows EveryRows();
Rows CoordinatorRows();
Rows ShardRows();
Rows WorkerRows();

inline MetricRow CounterRow(std::string_view name, Labels labels, std::string_view help) {
  return {.type = MetricType::kCounter, .name = name, .labels = std::move(labels), .help = help};
}
inline MetricRow CounterRow(std::string_view name, std::string_view help) {
  return CounterRow(name, Labels(), help);
}

// only: see MetricRow.
inline MetricRow GaugeRow(std::string_view name, Labels labels, std::string_view help,
                          std::string_view only = {}) {
  return {.type = MetricType::kGauge,
          .name = name,
          .labels = std::move(labels),
          .help = help,
          .only = only};
}
inline MetricRow GaugeRow(std::string_view name, std::string_view help,
                          std::string_view only = {}) {
  return GaugeRow(name, Labels(), help, only);
}

inline MetricRow HistogramRow(std::string_view name, std::vector<double> buckets,
                              std::string_view help) {
  return {
      .type = MetricType::kHistogram, .name = name, .help = help, .buckets = std::move(buckets)};
}

inline Rows Joined(std::initializer_list<Rows> parts) {
  Rows all;
  for (const Rows& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

inline MetricLabel Stat() { return {"stat", {std::begin(kSpreadStats), std::end(kSpreadStats)}}; }
inline MetricLabel PushedOrPulled() { return {"direction", {"pushed", "pulled"}}; }
inline MetricLabel SentOrReceived() { return {"direction", {"sent", "received"}}; }
// The names of common/log/refusals.h.
inline MetricLabel PeerRefusals() {
  return {"reason",
          {"no_certificate", "other_authority", "expired", "bad_certificate", "wrong_name",
           "expelled"}};
}
inline MetricLabel FrameKinds() {
  return {"kind", {"hello", "push", "answer", "merged", "pull", "fetch", "snapshot", "request"}};
}

// Half a millisecond to two minutes: for disks, merges and steps.
inline std::vector<double> ShortSeconds() {
  return {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120};
}
// A hundredth of a second to an hour: for rounds.
inline std::vector<double> LongSeconds() {
  return {0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600};
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_METRICS_METRIC_ROWS_H_
