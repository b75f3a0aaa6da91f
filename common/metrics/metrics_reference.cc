// The table of metrics as a page for people.
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/enum_name.h"
#include "common/base/wrapped.h"
#include "common/metrics/metric_rows.h"
#include "common/metrics/metric_table.h"

namespace longwave {
namespace {

constexpr std::string_view kHead = R"(# Metrics

For whoever watches a run: every series that a process serves for Prometheus. [Scraping a
run](../how-to/dashboards.md#scraping-a-run) says how to get them, and the dashboards there say what they mean together.
`build/bin/longwave-metrics-reference` writes this page from the table in `common/metrics/metric_table.cc`; a test holds
the two together.

All series of a page carry the label `run`: the run's name, which is its folder's under `longwave up`, or its
hexadecimal name where it has no other. Those of a worker also carry `worker` (its name), those of a shard `shard` (its
index). No series of the coordinator names a worker, so its page is as large with 10,000 workers as with four. The label
`stat` shows how a figure is spread over the workers: `min`, `p10`, `p50`, `p90`, `p99`, `max`.

A counter begins at 0 with its process, unless it counts "since the run began": then it comes back with the process's
state. No counter falls while its process lives. The coordinator's sums keep what a killed worker has done, and do not
count twice what the worker's next process reads from its folder. A gauge that has no value yet is not on the page.
)";

// The name of a histogram's buckets, after its type.
std::string_view BucketsOf(const MetricRow& row) {
  if (row.buckets.empty()) return "";
  return row.buckets == ShortSeconds() ? ", short" : ", long";
}

std::string BucketSets() {
  const std::string short_ones = absl::StrJoin(ShortSeconds(), ", ");
  const std::string long_ones = absl::StrJoin(LongSeconds(), ", ");
  return Wrapped(absl::StrCat("The buckets of a histogram are *short* (", short_ones,
                              ") or *long* (", long_ones, ")."),
                 "");
}

std::string Listed(const std::vector<std::string_view>& words) {
  return absl::StrJoin(words, ", ",
                       [](std::string* out, std::string_view word) { out->append(word); });
}

std::string LabelNames(const MetricRow& row) {
  std::vector<std::string> labels;
  for (const MetricLabel& label : row.labels) {
    std::string text = absl::StrCat("`", std::string(label.name), "`");
    if (label.name != "stat" && !label.values.empty()) {
      absl::StrAppend(&text, ": ", Listed(label.values));
    }
    labels.push_back(std::move(text));
  }
  return absl::StrJoin(labels, "; ");
}

std::string Help(const MetricRow& row) {
  std::string help(row.help);
  if (!row.only.empty()) absl::StrAppend(&help, " Only ", std::string(row.only), ".");
  return help;
}

std::string_view Title(MetricPart part) {
  return EnumName(part, {"Every process", "The coordinator", "A shard", "A worker"});
}

}  // namespace

std::string MetricsReference() {
  std::string page = absl::StrCat(std::string(kHead), "\n", BucketSets(), "\n");
  for (const MetricPart part :
       {MetricPart::kCoordinator, MetricPart::kShard, MetricPart::kWorker, MetricPart::kEvery}) {
    absl::StrAppend(&page, "\n## ", std::string(Title(part)), "\n\n");
    for (const MetricRow& row : MetricTable()) {
      if (row.part != part) continue;
      const std::string labels = LabelNames(row);
      const std::string item = absl::StrCat(
          "- `", std::string(row.name), "` (", std::string(Name(row.type)),
          std::string(BucketsOf(row)), labels.empty() ? "" : "; ", labels, "). ", Help(row));
      absl::StrAppend(&page, Wrapped(item, "  "), "\n");
    }
  }
  return page;
}

}  // namespace longwave
