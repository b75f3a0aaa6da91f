// bench_scrape [--quick]: what being scraped costs.
//
//   coordinator  a coordinator with 10,000 members that have trained for some rounds, a few of them
//                lost, scraped over HTTP as Prometheus does: milliseconds and bytes a page. The bar
//                is 50 ms and 1 MB.
//   worker       a worker's page, as a share of its time when it is scraped every five seconds, and
//                what keeping its series up to date takes of a step of 10 ms. The bar is 0.5 %
//                together.
//
// Ends with status 1 where a bar is missed. --quick: fewer members and pages, and no bars.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/config/config.h"
#include "common/log/refusals.h"
#include "common/metrics/metrics.h"
#include "common/metrics/metrics_server.h"
#include "server/coordinator/coordinator.h"
#include "server/service/coordinator_metrics.h"
#include "tests/bench/clock.h"
#include "tests/bench/in_process/nobody_watches.h"
#include "tests/support/http_get.h"
#include "worker/member/worker_metrics.h"

namespace longwave {
namespace {

constexpr uint32_t kShards = 4;
constexpr uint32_t kRounds = 10;
constexpr double kPageMsMax = 50;
constexpr double kPageBytesMax = 1e6;
constexpr double kScrapeInterval = 5;   // seconds
constexpr double kStepSeconds = 0.010;  // a small model's, on a CPU
constexpr double kWorkerShareMax = 0.005;

double Seconds(const std::function<void()>& work) {
  const double begin = SecondsOf(CLOCK_MONOTONIC);
  work();
  return SecondsOf(CLOCK_MONOTONIC) - begin;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// A run in which all members report round after round. Every hundredth worker stops halfway.
class ManyMembers {
 public:
  ManyMembers(uint32_t members, Metrics* metrics)
      : members_(members),
        core_({.workers_wanted = members,
               .shards_wanted = kShards,
               .rounds = kRounds + 1,
               .segment_count = [](const Manifest&, uint64_t) { return 1; }}),
        series_(metrics, kRounds + 1, /*promises_equal_replicas=*/true) {
    for (uint32_t w = 0; w < members; ++w) {
      const RegisterWorker request = {.name = absl::StrFormat("worker-%d", w),
                                      .identity = w + 1,
                                      .manifest = {{{"w", {64, 64}}}},
                                      .layout_hash = 1,
                                      .incarnation = w + 1,
                                      .start_hashes = {1}};
      Step(request);
      series_.Registered(request, w);
    }
    for (uint32_t s = 0; s < kShards; ++s) {
      const RegisterShard request = {.shard = s,
                                     .data_endpoint = "tcp://host:1",
                                     .control_endpoint = "host:1",
                                     .incarnation = s + 1};
      Step(request);
      series_.Registered(request);
    }
    for (uint32_t round = 0; round < kRounds; ++round) Beat(round);
    refresher_ = series_.page()->OnPage(
        [this] { series_.Refresh(core_.Status(series_.next_record(), now_), refusals_); });
  }

  uint32_t rounds() const { return static_cast<uint32_t>(series_.next_record()); }

 private:
  void Step(const CoordinatorEvent& event) { core_.Step(event, now_, rng_); }

  void Beat(uint32_t round) {
    now_ += absl::Seconds(10);
    Step(Tick{});
    // The membership is sent only to members that do not know the epoch.
    const uint32_t epoch = core_.Status(series_.next_record(), now_).epoch;
    for (uint32_t s = 0; s < kShards; ++s) {
      const ShardHeartbeat heartbeat = {.shard = s,
                                        .incarnation = s + 1,
                                        .known_epoch = epoch,
                                        .knows_manifest = true,
                                        .state = {.open_round = round + 1}};
      Step(heartbeat);
      series_.Heard(heartbeat);
    }
    for (uint32_t w = 0; w < members_; ++w) {
      if (w % 100 == 1 && round >= kRounds / 2) continue;
      const double noise = static_cast<double>(rng_.Below(1000)) / 1000;
      WorkerHeartbeat heartbeat{.worker = w, .incarnation = w + 1, .known_epoch = epoch};
      heartbeat.state = {.phase = WorkerPhase::kTraining,
                         .step = 30 * (round + 1),
                         .round = round,
                         .train_loss = 3 + noise,
                         .tokens = 30000 * (round + 1),
                         .bytes = {.pushed = 1000 * (round + 1)},
                         .seconds_computing = (8 + noise) * (round + 1),
                         .seconds_syncing = 1.0 * (round + 1)};
      heartbeat.rounds = {{.round = round,
                           .step = 30 * (round + 1),
                           .train_loss = 3 + noise,
                           .segment_hashes = {round}}};
      Step(heartbeat);
      series_.Heard(heartbeat, now_);
    }
  }

  const uint32_t members_;
  absl::Time now_ = absl::UnixEpoch();
  Rng rng_{1};
  Coordinator core_;
  CoordinatorMetrics series_;
  Refusals refusals_;
  std::unique_ptr<Metrics::Refresher> refresher_;
};

bool BenchCoordinator(uint32_t members, int pages) {
  Metrics metrics(MetricPart::kCoordinator);
  metrics.SetLabel("run", "bench");
  const ManyMembers run(members, &metrics);
  const auto server = MetricsServer::Start("127.0.0.1:0", &metrics);
  LONGWAVE_CHECK(server.ok());
  std::vector<double> ms;
  size_t bytes = 0;
  for (int i = 0; i < pages; ++i) {
    HttpAnswer answer;
    ms.push_back(1e3 * Seconds([&] { answer = Request((*server)->address(), "GET", "/metrics"); }));
    LONGWAVE_CHECK(answer.status == 200);
    bytes = std::max(bytes, answer.body.size());
  }
  LONGWAVE_CHECK(run.rounds() > 0);
  const double worst = *std::ranges::max_element(ms);
  std::printf(
      "coordinator,members=%u,rounds=%u,page_ms_median=%.2f,page_ms_max=%.2f,page_bytes=%zu\n",
      members, run.rounds(), Median(ms), worst, bytes);
  return Median(ms) < kPageMsMax && static_cast<double>(bytes) < kPageBytesMax;
}

bool BenchWorker(int pages, int steps) {
  Metrics metrics(MetricPart::kWorker);
  metrics.SetLabel("run", "bench");
  metrics.SetLabel("worker", "worker-0");
  const auto layout = Layout::Create({{{"w", {1024, 1024}}}}, LayoutOptions{});
  LONGWAVE_CHECK(layout.ok());
  const NobodyWatches host;
  WorkerMetrics series(&metrics, &*layout, DefaultConfig(), &host, 1);
  WorkerState state{.phase = WorkerPhase::kTraining};
  // The metrics calls of a trainer's step.
  const double step = Seconds([&] {
                        for (int i = 0; i < steps; ++i) {
                          state.step += 1;
                          for (const auto phase :
                               {WorkerMetrics::Phase::kData, WorkerMetrics::Phase::kForwardBackward,
                                WorkerMetrics::Phase::kOptimizer}) {
                            const PhaseTimer timer(series.seconds(phase));
                          }
                          series.Show(state);
                          series.ShowLearningRate(1e-3);
                          series.ShowGradientNorm(1);
                          series.StepDone(absl::Milliseconds(10));
                        }
                      }) /
                      steps;
  std::vector<double> seconds;
  seconds.reserve(pages);
  size_t bytes = 0;
  for (int i = 0; i < pages; ++i)
    seconds.push_back(Seconds([&] { bytes = metrics.Page().size(); }));
  const double scrape_share = Median(seconds) / kScrapeInterval;
  const double step_share = step / kStepSeconds;
  std::printf(
      "worker,page_us=%.1f,page_bytes=%zu,scrape_share=%.6f%%,step_us=%.2f,step_share=%.4f%%\n",
      1e6 * Median(seconds), bytes, 100 * scrape_share, 1e6 * step, 100 * step_share);
  return scrape_share + step_share < kWorkerShareMax;
}

int Main(bool quick) {
  const bool coordinator = BenchCoordinator(quick ? 200 : 10000, quick ? 3 : 50);
  const bool worker = BenchWorker(quick ? 10 : 1000, quick ? 100 : 100000);
  std::printf("bars: %s\n", coordinator && worker ? "met" : "missed");
  return quick || (coordinator && worker) ? 0 : 1;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  return longwave::Main(argc > 1 && std::strcmp(argv[1], "--quick") == 0);
}
