// The table of metrics as a page for people.
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/enum_name.h"
#include "common/metrics/metric_table.h"

namespace longwave {
namespace {

constexpr std::string_view kHead = R"(# Metrics

Written by `build/bin/longwave-metrics-reference` from the table in `common/metrics/metric_table.cc`; a
test holds the two together.

Every process serves its series for Prometheus at `http://HOST:PORT/metrics`, and `/healthz` with
status 200 for as long as it runs. HOST:PORT is what `--metrics` says, or else `metrics.listen`; the
process names it in its log. [Running](running.md#metrics) says how to scrape a run.

All series of a page carry the label `run` (the run's name, its folder's under `longwave up`, or its
hexadecimal name where it has no other), a worker's also `worker` (its name) and a shard's `shard` (its
index). No series of the coordinator names a worker: its page is as large with 10,000 workers as with
four. What each worker reports stands there as its spread over the workers, in the label `stat`: `min`,
`p10`, `p50`, `p90`, `p99`, `max`.

Counters begin at 0 with their process, except where it says otherwise: those come back with its state.
None falls while its process lives: what a worker has done stays in the coordinator's sums when it is
killed, and what its next process reads from its folder does not count twice.
A gauge that has no value yet is not on the page.
)";

// A cell of a Markdown table.
std::string Cell(const std::string& text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

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
  if (!row.buckets.empty()) {
    absl::StrAppend(&help, " Buckets: ", absl::StrJoin(row.buckets, ", "), ".");
  }
  if (!row.only.empty()) absl::StrAppend(&help, " Only ", std::string(row.only), ".");
  return help;
}

std::string_view Title(MetricPart part) {
  return EnumName(part, {"Every process", "The coordinator", "A shard", "A worker"});
}

}  // namespace

std::string MetricsReference() {
  std::string page(kHead);
  for (const MetricPart part :
       {MetricPart::kCoordinator, MetricPart::kShard, MetricPart::kWorker, MetricPart::kEvery}) {
    absl::StrAppend(&page, "\n## ", std::string(Title(part)),
                    "\n\n| series | type | labels | what it is |\n|---|---|---|---|\n");
    for (const MetricRow& row : MetricTable()) {
      if (row.part != part) continue;
      absl::StrAppend(&page, "| `", std::string(row.name), "` | ", std::string(Name(row.type)),
                      " | ", Cell(LabelNames(row)), " | ", Cell(Help(row)), " |\n");
    }
  }
  return page;
}

}  // namespace longwave
