#ifndef LONGWAVE_COMMON_METRICS_METRIC_TABLE_H_
#define LONGWAVE_COMMON_METRICS_METRIC_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longwave {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };
// Whose page a series is on.
enum class MetricPart : uint8_t { kEvery, kCoordinator, kShard, kWorker };

// A label, with every value that it can have: pages are as large as the table says, whatever the
// run does. Series of workers and shards are told apart by constant labels of their own pages.
// Without values: one that the build decides.
struct MetricLabel {
  std::string_view name;
  std::vector<std::string_view> values;
};

// What a series is, once for the process that exports it, docs/metrics.md, dashboards and alerts.
struct MetricRow {
  MetricPart part = MetricPart::kEvery;
  MetricType type = MetricType::kGauge;
  std::string_view name;
  std::vector<MetricLabel> labels;
  std::string_view help;
  std::vector<double> buckets = {};  // of a histogram: upper bounds, ascending, without infinity
  // Where a page may lack it though the process does its work; empty: nowhere.
  std::string_view only = {};
};

// Every series of Longwave, part by part. Names are longwave_<part>_<what>_<unit>, those that each
// page has longwave_<what>_<unit> or, where every Prometheus client has them,
// process_<what>_<unit>. Counters end in _total. What is measured in seconds, bytes or as a ratio
// says so in its name; everything else counts what it names.
const std::vector<MetricRow>& MetricTable();

// The row of that name; null: there is none.
const MetricRow* FindMetric(std::string_view name);

// The label `stat`: of a figure that each worker has, how it is spread over them.
inline constexpr std::string_view kSpreadStats[] = {"min", "p10", "p50", "p90", "p99", "max"};
// The share of the workers that are at or below each; for Spread.
inline constexpr double kSpreadShares[] = {0, 0.1, 0.5, 0.9, 0.99, 1};

std::string_view Name(MetricType type);  // "counter", "gauge", "histogram"
std::string_view Name(MetricPart part);  // "every", "coordinator", "shard", "worker"

// The table for people, as docs/metrics.md has it.
std::string MetricsReference();

}  // namespace longwave

#endif  // LONGWAVE_COMMON_METRICS_METRIC_TABLE_H_
