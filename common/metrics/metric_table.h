#ifndef LONGWAVE_COMMON_METRICS_METRIC_TABLE_H_
#define LONGWAVE_COMMON_METRICS_METRIC_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longwave {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };
// The processes whose page has a series.
enum class MetricPart : uint8_t { kEvery, kCoordinator, kShard, kWorker };

// A label with all its values: the table alone bounds a page's size. Series of different workers
// and shards differ in constant labels of their pages. A label without values takes one from the
// build or the configuration (Metrics::ShowInfo).
struct MetricLabel {
  std::string_view name;
  std::vector<std::string_view> values;
};

// The one description of a series, for the process that exports it, docs/reference/metrics.md,
// dashboards and alerts.
struct MetricRow {
  MetricPart part = MetricPart::kEvery;
  MetricType type = MetricType::kGauge;
  std::string_view name;
  std::vector<MetricLabel> labels;
  std::string_view help;
  std::vector<double> buckets = {};  // of a histogram: upper bounds, ascending, without infinity
  // When the page of a working process may lack the series; empty: never.
  std::string_view only = {};
};

// Every series of Longwave, part by part. Names are longwave_<part>_<what>_<unit>; those on each
// page are longwave_<what>_<unit> or, for names that every Prometheus client has,
// process_<what>_<unit>. Counters end in _total. Names state seconds, bytes or ratio; all other
// series count what the name says.
const std::vector<MetricRow>& MetricTable();

// Values of the label `stat`: how a figure of each worker is spread over the workers.
inline constexpr std::string_view kSpreadStats[] = {"min", "p10", "p50", "p90", "p99", "max"};
// The share of workers at or below each of kSpreadStats; for Spread.
inline constexpr double kSpreadShares[] = {0, 0.1, 0.5, 0.9, 0.99, 1};

std::string_view Name(MetricType type);  // "counter", "gauge", "histogram"
std::string_view Name(MetricPart part);  // "every", "coordinator", "shard", "worker"

// The text of docs/reference/metrics.md.
std::string MetricsReference();

}  // namespace longwave

#endif  // LONGWAVE_COMMON_METRICS_METRIC_TABLE_H_
