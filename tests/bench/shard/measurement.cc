#include "tests/bench/shard/measurement.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "server/shard/merge.h"
#include "tests/bench/clock.h"
#include "tests/bench/shard/cluster.h"
#include "tests/bench/shard/load.h"
#include "tests/bench/shard/machine.h"
#include "tests/bench/shard/payloads.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

// Merged again and compared, from the first round on: the residual that one leaves is the next
// one's.
constexpr uint32_t kCheckedRounds = 3;

absl::StatusOr<RunConfig> ConfigOf(const BenchShardOptions& options, uint32_t workers) {
  Overrides overrides = {
      "run.preset=longwave_adamw", "sync.up.k=64", "sync.up.codec=sign", "sync.down.k=256",
      "model.kind=external", absl::StrCat("run.workers=", workers),
      absl::StrCat("run.shards=", options.shards),
      // More than any bench does, and signs of life that hundreds of workers in one process can
      // give on one processor.
      "run.steps=1000000000", "cluster.heartbeat_interval_s=2", "cluster.heartbeat_timeout_s=60",
      // The synthetic workers have no parameters to give.
      "cluster.snapshot_rounds=1000000"};
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  return ParseConfig("{}", "bench", overrides);
}

absl::StatusOr<double> ProcessorSecondsOf(const std::vector<std::unique_ptr<Process>>& processes) {
  double sum = 0;
  for (const auto& process : processes) {
    LONGWAVE_ASSIGN_OR_RETURN(const double seconds, ProcessorSeconds(process->pid()));
    sum += seconds;
  }
  return sum;
}

// Merges the same contributions again with the Merger and without a server, and compares the
// results with the load's: `segment` in each of the rounds 0 … rounds − 1, where later rounds
// depend on the residual of earlier ones. Returns the merge's processor seconds, on one thread in
// fast memory. DataLoss: a round differs; the message says which and how.
absl::StatusOr<double> CheckMerges(const RunConfig& config, const Layout& layout,
                                   const BenchPushes& pushes, const Load& load, uint32_t segment,
                                   uint32_t rounds) {
  const MergeOptions options{.run_seed = config.run.seed,
                             .up = config.sync.up,
                             .rho = config.sync.rho,
                             .down = config.sync.down};
  LONGWAVE_RETURN_IF_ERROR(Validate(options));
  std::vector<Contribution> contributions;
  std::vector<float> norms;
  for (uint32_t worker = 0; worker < pushes.workers(); ++worker) {
    const BenchPush& push = pushes.Of(worker, segment);
    contributions.push_back({.weight = push.weight,
                             .layout = &pushes.layout(segment),
                             .payload = push.payload.bytes()});
    norms.push_back(push.norm);
  }
  std::vector<float> residual;
  if (KeepsResidual(options)) residual.resize(layout.segments()[segment].coefficient_count);
  Merger merger(options);
  double seconds = 0;
  float last_norm = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const std::vector<double> factors = ClipFactors(norms, last_norm, config.sync.clip);
    for (size_t i = 0; i < factors.size(); ++i) contributions[i].factor = factors[i];
    const double before = SecondsOf(CLOCK_THREAD_CPUTIME_ID);
    const MergedSegment wanted = merger.Merge(layout, segment, round, contributions, residual);
    seconds += SecondsOf(CLOCK_THREAD_CPUTIME_ID) - before;
    last_norm = wanted.norm();
    const std::vector<std::byte>& got = load.Kept(round, segment);
    if (got == wanted.payload) continue;
    return absl::DataLossError(absl::StrCat("segment ", segment, " of round ", round, ": got ",
                                            got.size(), " bytes, the same merge gives other ",
                                            wanted.payload.size()));
  }
  return seconds;
}

// The measurement for one number of workers, from the start of the processes to their end.
class Measurement {
 public:
  Measurement(const BenchShardOptions& options, const ProcessorPlan& placement, uint32_t workers)
      : options_(options), placement_(placement), workers_(workers) {}

  absl::StatusOr<ShardFigures> Run() {
    LONGWAVE_ASSIGN_OR_RETURN(config_, ConfigOf(options_, workers_));
    if (options_.log_dir.empty()) return RunIn(TestFolder().path());
    const std::string folder = absl::StrCat(options_.log_dir, "/", workers_);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return Unavailable("folder ", folder, ": ", error.message());
    return RunIn(folder);
  }

 private:
  absl::StatusOr<ShardFigures> RunIn(const std::string& folder) {
    LONGWAVE_ASSIGN_OR_RETURN(
        cluster_,
        BenchCluster::Start({.server = options_.server,
                             .folder = folder,
                             .config = config_,
                             .manifest = {{{"synthetic", {static_cast<int64_t>(options_.params)}}}},
                             .shard_processors = placement_.shards,
                             .keep_state = options_.keep_state}));
    const absl::StatusOr<ShardFigures> figures = Measure();
    if (!figures.ok()) {
      // A process that has ended says more than a load that waits for it in vain.
      LONGWAVE_RETURN_IF_ERROR(cluster_->Health());
      return figures.status();
    }
    LONGWAVE_RETURN_IF_ERROR(cluster_->Stop());
    return figures;
  }

  absl::StatusOr<ShardFigures> Measure() {
    const Layout& layout = cluster_->layout();
    LONGWAVE_ASSIGN_OR_RETURN(
        const BenchPushes pushes,
        BenchPushes::Create(layout, config_.sync.up, workers_, ContributionWeightMax(config_)));
    LoadOptions load_options{.endpoints = cluster_->data_endpoints(),
                             .workers = cluster_->workers(),
                             .run = cluster_->run(),
                             .epoch = cluster_->epoch(),
                             .kept_rounds = kCheckedRounds};
    for (const Segment& segment : layout.segments()) load_options.shards.push_back(segment.shard);
    LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Load> load,
                              Load::Connect(load_options, &pushes));
    // Also warms everything up.
    LONGWAVE_ASSIGN_OR_RETURN(const LoadFigures first, load->Run(kCheckedRounds, {}));

    ShardFigures figures;
    figures.workers = workers_;
    figures.segments = pushes.segments();
    figures.parameters = layout.parameter_count();
    figures.coefficients = pushes.coefficients();
    LONGWAVE_ASSIGN_OR_RETURN(const ShardCounts before, cluster_->Counts());
    LONGWAVE_ASSIGN_OR_RETURN(const double seconds_before, ProcessorSecondsOf(cluster_->shards()));
    LONGWAVE_ASSIGN_OR_RETURN(figures.load,
                              load->Run(options_.rounds, absl::Seconds(options_.seconds)));
    LONGWAVE_ASSIGN_OR_RETURN(const double seconds_after, ProcessorSecondsOf(cluster_->shards()));
    figures.processor_seconds = seconds_after - seconds_before;
    LONGWAVE_ASSIGN_OR_RETURN(const ShardCounts after, cluster_->Counts());
    figures.counted = after.Since(before);
    CompareCounts(&figures);
    for (const auto& shard : cluster_->shards()) {
      LONGWAVE_ASSIGN_OR_RETURN(const uint64_t bytes, ResidentBytesMax(shard->pid()));
      figures.resident_bytes_max = std::max(figures.resident_bytes_max, bytes);
    }
    if (const uint64_t wrong = first.disagreements + figures.load.disagreements; wrong > 0) {
      figures.disagreement = absl::StrCat(wrong, " merged frames are not what another worker got");
    }
    CheckShards(pushes, *load, &figures);
    return figures;
  }

  // The shards' counters must equal the load's.
  static void CompareCounts(ShardFigures* figures) {
    const LoadFigures& load = figures->load;
    const ShardCounts by_load{.pushes_accepted = load.accepted,
                              .segments_closed = load.rounds * figures->segments,
                              .bytes_received = load.link.sent,
                              .bytes_sent = load.link.received,
                              .payload_received = load.link.payload_sent,
                              .payload_sent = load.link.payload_received};
    const ShardCounts& counted = figures->counted;
    if (counted == by_load) return;
    figures->wrong_bytes = absl::StrCat(
        "the shards count ", counted.pushes_accepted, " pushes, ", counted.segments_closed,
        " closes, ", counted.bytes_received, " bytes in and ", counted.bytes_sent,
        " out; the generator ", by_load.pushes_accepted, ", ", by_load.segments_closed, ", ",
        by_load.bytes_received, " and ", by_load.bytes_sent);
  }

  // The first segment of each shard.
  void CheckShards(const BenchPushes& pushes, const Load& load, ShardFigures* figures) const {
    const auto segments = cluster_->layout().segments();
    double seconds = 0, coefficients = 0;
    for (uint32_t segment = 0; segment < segments.size(); ++segment) {
      if (segment > 0 && segments[segment].shard == segments[segment - 1].shard) continue;
      const absl::StatusOr<double> checked =
          CheckMerges(config_, cluster_->layout(), pushes, load, segment, kCheckedRounds);
      if (!checked.ok()) {
        figures->wrong_merge = std::string(checked.status().message());
        continue;
      }
      seconds += *checked;
      coefficients += static_cast<double>(pushes.coefficients(segment)) * workers_ * kCheckedRounds;
    }
    if (seconds > 0) figures->merge_alone_per_second = coefficients / seconds;
  }

  const BenchShardOptions& options_;
  const ProcessorPlan& placement_;
  const uint32_t workers_;
  RunConfig config_;
  std::unique_ptr<BenchCluster> cluster_;
};

}  // namespace

absl::StatusOr<ShardFigures> MeasureShards(const BenchShardOptions& options,
                                           const ProcessorPlan& placement, uint32_t workers) {
  return Measurement(options, placement, workers).Run();
}

}  // namespace longwave
