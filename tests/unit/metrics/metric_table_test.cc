#include "common/metrics/metric_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace longwave {
namespace {

using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::StartsWith;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool Has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

TEST(MetricTable, NamesEachSeriesOnce) {
  std::set<std::string_view> names;
  for (const MetricRow& row : MetricTable()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
  EXPECT_GE(names.size(), 45u);
}

TEST(MetricTable, NamesSayWhoseTheyAre) {
  const std::regex name("[a-z]+(_[a-z0-9]+)+");
  for (const MetricRow& row : MetricTable()) {
    EXPECT_TRUE(std::regex_match(std::string(row.name), name)) << row.name;
    if (row.part == MetricPart::kEvery) {
      EXPECT_THAT(std::string(row.name), AnyOf(StartsWith("longwave_"), StartsWith("process_")));
      for (const char* part : {"_coordinator_", "_shard_", "_worker_"})
        EXPECT_FALSE(Has(row.name, part)) << row.name;
    } else {
      EXPECT_THAT(std::string(row.name),
                  StartsWith("longwave_" + std::string(Name(row.part)) + "_"));
    }
  }
}

TEST(MetricTable, CountersAloneEndInTotal) {
  for (const MetricRow& row : MetricTable()) {
    const bool is_total = row.name.ends_with("_total");
    EXPECT_EQ(is_total, row.type == MetricType::kCounter) << row.name;
  }
}

// Base units, at the end of the name (before _total), and nothing that promtool calls an
// abbreviation or another unit.
TEST(MetricTable, UnitsAreSecondsBytesAndRatiosAtTheEnd) {
  for (const MetricRow& row : MetricTable()) {
    std::string_view stem = row.name;
    if (stem.ends_with("_total")) stem.remove_suffix(std::string_view("_total").size());
    for (const std::string_view unit : {"_seconds", "_bytes", "_ratio"}) {
      EXPECT_EQ(Has(row.name, unit), stem.ends_with(unit)) << row.name;
    }
    for (const char* other : {"_ms", "_milliseconds", "_minutes", "_hours", "_kb", "_mb", "_gb",
                              "_percent", "_sec_", "_share"})
      EXPECT_FALSE(Has(row.name, other)) << row.name;
  }
}

TEST(MetricTable, EachIsExplainedInASentence) {
  for (const MetricRow& row : MetricTable()) {
    EXPECT_GE(row.help.size(), 10u) << row.name;
    EXPECT_THAT(std::string(row.help), EndsWith(".")) << row.name;
    EXPECT_FALSE(row.only.ends_with('.')) << row.name << ": the reference ends the sentence";
    EXPECT_FALSE(Has(row.help, "  ")) << row.name;
  }
}

TEST(MetricTable, LabelsAreFewAndTheirValuesKnown) {
  const std::regex word("[a-z][a-z0-9_]*");
  const std::set<std::string_view> taken = {"le",  "quantile", "job",   "instance",
                                            "run", "worker",   "shard", "process"};
  for (const MetricRow& row : MetricTable()) {
    size_t series = 1;
    std::set<std::string_view> names;
    for (const MetricLabel& label : row.labels) {
      EXPECT_TRUE(std::regex_match(std::string(label.name), word)) << row.name;
      EXPECT_FALSE(taken.contains(label.name)) << row.name << " has the label " << label.name;
      EXPECT_TRUE(names.insert(label.name).second) << row.name;
      std::set<std::string_view> values;
      for (const std::string_view value : label.values) {
        EXPECT_TRUE(std::regex_match(std::string(value), word)) << row.name << ": " << value;
        EXPECT_TRUE(values.insert(value).second) << row.name << ": " << value;
      }
      series *= std::max<size_t>(1, values.size());
    }
    EXPECT_LE(series, 16u) << row.name;
  }
}

TEST(MetricTable, HistogramsAreOfSecondsWithAscendingBuckets) {
  for (const MetricRow& row : MetricTable()) {
    if (row.type != MetricType::kHistogram) {
      EXPECT_TRUE(row.buckets.empty()) << row.name;
      continue;
    }
    EXPECT_TRUE(row.name.ends_with("_seconds")) << row.name;
    EXPECT_TRUE(row.labels.empty()) << row.name;
    ASSERT_FALSE(row.buckets.empty()) << row.name;
    EXPECT_TRUE(std::ranges::is_sorted(row.buckets, std::less_equal<>())) << row.name;
    EXPECT_GT(row.buckets.front(), 0) << row.name;
  }
}

TEST(MetricsReference, IsDocsMetrics) {
  EXPECT_EQ(ReadAll(LONGWAVE_SOURCE_DIR "/docs/reference/metrics.md"), MetricsReference())
      << "run build/bin/longwave-metrics-reference > docs/reference/metrics.md";
}

}  // namespace
}  // namespace longwave
