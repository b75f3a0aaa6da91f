#include "common/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, CountersAreThereFromTheBeginningWithEveryLabel) {
  Metrics metrics(MetricPart::kShard);
  const std::string page = metrics.Page();
  for (const MetricRow& row : MetricTable()) {
    if (row.part != MetricPart::kShard || row.type != MetricType::kCounter) continue;
    size_t series = 1;
    for (const MetricLabel& label : row.labels) series *= label.values.size();
    size_t lines = 0;
    for (size_t at = 0; (at = page.find("\n" + std::string(row.name), at)) != std::string::npos;
         ++at)
      ++lines;
    EXPECT_EQ(lines, series) << row.name;
  }
}

TEST(Metrics, APageHasItsOwnPartAlone) {
  Metrics metrics(MetricPart::kWorker);
  const std::string page = metrics.Page();
  EXPECT_THAT(page, HasSubstr("longwave_worker_steps_total 0\n"));
  EXPECT_THAT(page, HasSubstr("process_open_fds"));
  EXPECT_THAT(page, Not(HasSubstr("longwave_shard_")));
  EXPECT_THAT(page, Not(HasSubstr("longwave_coordinator_members")));
}

TEST(Metrics, ShowsWhatWasCountedUnderItsLabels) {
  Metrics metrics(MetricPart::kShard);
  metrics.counter("longwave_shard_pushes_total", {"late"}).Add();
  metrics.counter("longwave_shard_pushes_total", {"late"}).Add(2);
  metrics.counter("longwave_shard_bytes_total", {"sent", "merged"}).Show(1e15);
  const std::string page = metrics.Page();
  EXPECT_THAT(page, HasSubstr("longwave_shard_pushes_total{outcome=\"late\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("longwave_shard_pushes_total{outcome=\"busy\"} 0\n"));
  EXPECT_THAT(
      page, HasSubstr("longwave_shard_bytes_total{direction=\"sent\",kind=\"merged\"} 1000000000000"
                      "000\n"));
}

TEST(Metrics, AGaugeIsOnThePageWhileItIsSet) {
  Metrics metrics(MetricPart::kWorker);
  EXPECT_THAT(metrics.Page(), Not(HasSubstr("longwave_worker_validation_loss")));
  Gauge& loss = metrics.gauge("longwave_worker_validation_loss");
  loss.Set(2.5);
  EXPECT_THAT(metrics.Page(), HasSubstr("longwave_worker_validation_loss 2.5\n"));
  loss.Set(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(metrics.Page(), HasSubstr("longwave_worker_validation_loss Nan\n"));
  loss.Clear();
  EXPECT_THAT(metrics.Page(), Not(HasSubstr("longwave_worker_validation_loss")));
}

TEST(Metrics, EverySeriesHasThePagesLabels) {
  Metrics metrics(MetricPart::kShard);
  metrics.SetLabel("run", "");
  metrics.SetLabel("shard", "3");
  EXPECT_THAT(metrics.Page(), HasSubstr("longwave_scrapes_total{shard=\"3\"} 0\n"));
  metrics.SetLabelIfNone("run", "first");
  metrics.SetLabelIfNone("run", "second");
  EXPECT_THAT(metrics.Page(),
              HasSubstr("longwave_shard_pushes_total{run=\"first\",shard=\"3\",outcome=\"late\"} "
                        "0\n"));
}

TEST(Metrics, LabelsAreEscaped) {
  Metrics metrics(MetricPart::kWorker);
  metrics.SetLabel("worker", "a\"b\\c\nd");
  EXPECT_THAT(metrics.Page(),
              HasSubstr("longwave_worker_steps_total{worker=\"a\\\"b\\\\c\\nd\"} 0\n"));
}

TEST(Metrics, SaysWhatTheProcessIs) {
  Metrics metrics(MetricPart::kWorker, "cuda");
  EXPECT_THAT(metrics.Page(),
              testing::ContainsRegex("longwave_build_info\\{version=\"[0-9.]+\",part=\"worker\","
                                     "backend=\"cuda\"\\} 1\n"));
}

TEST(Metrics, RefreshesBeforeEachPageForAsLongAsTheRefresherLives) {
  Metrics metrics(MetricPart::kWorker);
  Gauge& round = metrics.gauge("longwave_worker_round");
  int pages = 0;
  {
    const auto refresher = metrics.OnPage([&] { round.Set(++pages); });
    metrics.Page();
    EXPECT_THAT(metrics.Page(), HasSubstr("longwave_worker_round 2\n"));
  }
  metrics.Page();
  EXPECT_EQ(pages, 2);
}

TEST(Metrics, CountsItsPages) {
  Metrics metrics(MetricPart::kCoordinator);
  metrics.Page();
  metrics.Page();
  EXPECT_EQ(metrics.counter("longwave_scrapes_total").value(), 2);
  EXPECT_GT(metrics.counter("longwave_scrape_seconds_total").value(), 0);
}

TEST(MetricsDeath, WhatIsNotInTheTableIsAMistake) {
  Metrics metrics(MetricPart::kWorker);
  EXPECT_DEATH(metrics.counter("longwave_worker_bananas_total"), "metrics.cc");
  EXPECT_DEATH(metrics.counter("longwave_shard_pushes_total", {"late"}), "metrics.cc");
  EXPECT_DEATH(metrics.counter("longwave_worker_pushes_total", {"eaten"}), "metrics.cc");
  EXPECT_DEATH(metrics.gauge("longwave_worker_steps_total"), "metrics.cc");
}

TEST(Histogram, CountsUpToEachBound) {
  Histogram histogram({1, 2, 5});
  for (const double value : {0.5, 1.0, 1.5, 5.0, 6.0}) histogram.Observe(value);
  EXPECT_THAT(histogram.Read().counts, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(histogram.Read().sum, 14);
}

TEST(Histogram, IsWrittenCumulatively) {
  Metrics metrics(MetricPart::kWorker);
  metrics.histogram("longwave_worker_step_seconds").Observe(0.3);
  const std::string page = metrics.Page();
  EXPECT_THAT(page, HasSubstr("longwave_worker_step_seconds_bucket{le=\"0.25\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("longwave_worker_step_seconds_bucket{le=\"0.5\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("longwave_worker_step_seconds_bucket{le=\"+Inf\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("longwave_worker_step_seconds_count 1\n"));
}

TEST(Histogram, LosesNothingOfManyThreads) {
  Histogram histogram({1});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) histogram.Observe(i % 2 == 0 ? 0.5 : 1.5);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(histogram.Read().counts, ElementsAre(20000, 40000));
  EXPECT_EQ(histogram.Read().sum, 40000);
}

std::vector<double> Spread(Metrics& metrics) {
  std::vector<double> values;
  for (const auto stat : kSpreadStats)
    values.push_back(metrics.gauge("longwave_coordinator_worker_step_seconds", {stat}).value());
  return values;
}

TEST(SpreadGauges, AreTheSmallestValueWithThatShareBelow) {
  Metrics metrics(MetricPart::kCoordinator);
  SpreadGauges gauges(metrics, "longwave_coordinator_worker_step_seconds");
  std::vector<double> values;
  for (int i = 1000; i >= 1; --i) values.push_back(i);
  gauges.Set(values);
  EXPECT_THAT(Spread(metrics), ElementsAre(1, 100, 500, 900, 990, 1000));
  gauges.Set({3, 1, 2});
  EXPECT_THAT(Spread(metrics), ElementsAre(1, 1, 2, 3, 3, 3));
  gauges.Set({7});
  EXPECT_THAT(Spread(metrics), ElementsAre(7, 7, 7, 7, 7, 7));
}

TEST(SpreadGauges, NobodyIsNotOnThePage) {
  Metrics metrics(MetricPart::kCoordinator);
  SpreadGauges gauges(metrics, "longwave_coordinator_worker_step_seconds");
  gauges.Set({1});
  EXPECT_THAT(metrics.Page(), HasSubstr("longwave_coordinator_worker_step_seconds{"));
  gauges.Set({});
  EXPECT_THAT(metrics.Page(), Not(HasSubstr("longwave_coordinator_worker_step_seconds{")));
}

TEST(SpreadGauges, TheMaximumShowsWhatIsNoNumber) {
  Metrics metrics(MetricPart::kCoordinator);
  SpreadGauges gauges(metrics, "longwave_coordinator_worker_train_loss");
  gauges.Set({std::numeric_limits<double>::quiet_NaN(), 1, 2});
  EXPECT_TRUE(std::isnan(metrics.gauge("longwave_coordinator_worker_train_loss", {"max"}).value()));
  EXPECT_EQ(metrics.gauge("longwave_coordinator_worker_train_loss", {"min"}).value(), 1);
}

TEST(PhaseTimer, AddsToItsCounterAndToNoneWithout) {
  Counter seconds;
  { const PhaseTimer timer(&seconds); }
  EXPECT_GT(seconds.value(), 0);
  const PhaseTimer nothing(nullptr);
}

}  // namespace
}  // namespace longwave
