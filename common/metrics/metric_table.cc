#include "common/metrics/metric_table.h"

#include <utility>

#include "common/base/enum_name.h"
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

std::string_view Name(MetricType type) { return EnumName(type, {"counter", "gauge", "histogram"}); }

std::string_view Name(MetricPart part) {
  return EnumName(part, {"every", "coordinator", "shard", "worker"});
}

}  // namespace longwave
