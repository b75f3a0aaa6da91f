#include "common/metrics/metric_table.h"

#include <algorithm>
#include <utility>

#include "common/metrics/metric_rows.h"

namespace longwave {
namespace {

void Add(MetricPart part, Rows rows, Rows* table) {
  for (MetricRow& row : rows) {
    row.part = part;
    table->push_back(std::move(row));
  }
}

}  // namespace

const std::vector<MetricRow>& MetricTable() {
  static const Rows* const table = [] {
    auto* const all = new Rows;
    Add(MetricPart::kEvery, EveryRows(), all);
    Add(MetricPart::kCoordinator, CoordinatorRows(), all);
    Add(MetricPart::kShard, ShardRows(), all);
    Add(MetricPart::kWorker, WorkerRows(), all);
    return all;
  }();
  return *table;
}

const MetricRow* FindMetric(std::string_view name) {
  const auto& table = MetricTable();
  const auto found = std::ranges::find(table, name, &MetricRow::name);
  return found == table.end() ? nullptr : &*found;
}

std::string_view Name(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "unknown";
}

std::string_view Name(MetricPart part) {
  switch (part) {
    case MetricPart::kEvery:
      return "every";
    case MetricPart::kCoordinator:
      return "coordinator";
    case MetricPart::kShard:
      return "shard";
    case MetricPart::kWorker:
      return "worker";
  }
  return "unknown";
}

}  // namespace longwave
