#include "tests/bench/shard/measurement.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "tests/bench/shard/check.h"
#include "tests/bench/shard/cluster.h"
#include "tests/bench/shard/load.h"
#include "tests/bench/shard/machine.h"
#include "tests/bench/shard/payloads.h"

namespace longwave {
namespace {

// Merged again and compared, from the first round on: the residual that one leaves is the next
// one's.
constexpr uint32_t kCheckedRounds = 3;
// The shard and the raw router take turns, so that both see the same machine.
constexpr int kTurns = 4;

absl::StatusOr<ValueCodec> CodecOf(uint32_t bits) {
  for (const ValueCodec codec : {ValueCodec::kSign, ValueCodec::kInt2, ValueCodec::kInt4,
                                 ValueCodec::kInt8, ValueCodec::kBf16, ValueCodec::kFp32}) {
    if (ValueBits(codec) == bits) return codec;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--bits: got ", bits, ", wanted 1, 2, 4, 8, 16 or 32"));
}

absl::StatusOr<RunConfig> ConfigOf(const BenchShardOptions& options, uint32_t workers) {
  LONGWAVE_ASSIGN_OR_RETURN(const ValueCodec codec, CodecOf(options.bits));
  Overrides overrides = {
      "run.preset=longwave_adamw", "sync.down.k=256", "model.kind=external",
      absl::StrCat("run.workers=", workers), absl::StrCat("run.shards=", options.shards),
      absl::StrCat("sync.up.k=", options.k),
      absl::StrCat("sync.up.codec=", std::string(Name(codec))),
      // More than any bench does, and signs of life that hundreds of workers in one process can
      // give on one processor.
      "run.steps=1000000000", "cluster.heartbeat_interval_s=2", "cluster.heartbeat_timeout_s=60",
      // The synthetic workers have no parameters to give.
      "cluster.snapshot_rounds=1000000"};
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  return ParseConfig("{}", "bench", overrides);
}

// A folder that is deleted with this object, unless it is to be kept: a failure's message names the
// logs in it.
class Folder {
 public:
  static absl::StatusOr<Folder> Create(const std::string& kept) {
    std::error_code error;
    if (!kept.empty()) {
      std::filesystem::create_directories(kept, error);
      if (error) return Refused(kept, error);
      return Folder(kept, false);
    }
    std::string name = std::filesystem::temp_directory_path(error).string() + "/longwave-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      return Refused(name, std::error_code(errno, std::generic_category()));
    }
    return Folder(std::move(name), true);
  }
  Folder(Folder&& other) noexcept
      : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, false)) {}
  Folder& operator=(Folder&&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  void Keep() { temporary_ = false; }

 private:
  Folder(std::string path, bool temporary) : path_(std::move(path)), temporary_(temporary) {}
  static absl::Status Refused(const std::string& path, const std::error_code& error) {
    return absl::UnavailableError(absl::StrCat("folder ", path, ": ", error.message()));
  }

  std::string path_;
  bool temporary_;
};

absl::StatusOr<double> ProcessorSecondsOf(const std::vector<std::unique_ptr<Process>>& processes) {
  double sum = 0;
  for (const auto& process : processes) {
    LONGWAVE_ASSIGN_OR_RETURN(const double seconds, ProcessorSeconds(process->pid()));
    sum += seconds;
  }
  return sum;
}

// The measurement for one number of workers, from the start of the processes to their end.
class Measurement {
 public:
  Measurement(const BenchShardOptions& options, const ProcessorPlan& placement, std::string program,
              uint32_t workers)
      : options_(options), placement_(placement), program_(std::move(program)), workers_(workers) {}

  absl::StatusOr<ShardFigures> Take() {
    LONGWAVE_ASSIGN_OR_RETURN(config_, ConfigOf(options_, workers_));
    LONGWAVE_ASSIGN_OR_RETURN(
        Folder folder,
        Folder::Create(options_.log_dir.empty() ? ""
                                                : absl::StrCat(options_.log_dir, "/", workers_)));
    absl::StatusOr<ShardFigures> figures = TakeIn(folder.path());
    if (!figures.ok()) folder.Keep();
    return figures;
  }

 private:
  absl::StatusOr<ShardFigures> TakeIn(const std::string& folder) {
    LONGWAVE_ASSIGN_OR_RETURN(
        cluster_,
        BenchCluster::Start({.server = options_.server,
                             .folder = folder,
                             .config = config_,
                             .manifest = {{{"synthetic", {static_cast<int64_t>(options_.params)}}}},
                             .shard_processors = placement_.shards,
                             .keep_state = options_.keep_state}));
    const absl::StatusOr<ShardFigures> figures = Measure(folder);
    if (!figures.ok()) {
      // A process that has ended says more than a load that waits for it in vain.
      LONGWAVE_RETURN_IF_ERROR(cluster_->Health());
      return figures.status();
    }
    LONGWAVE_RETURN_IF_ERROR(cluster_->Stop());
    return figures;
  }

  absl::StatusOr<ShardFigures> Measure(const std::string& folder) {
    const Layout& layout = cluster_->layout();
    LONGWAVE_ASSIGN_OR_RETURN(
        const BenchPushes pushes,
        BenchPushes::Create(layout, config_.sync.up, workers_, ContributionWeightMax(config_)));
    LoadOptions load_options{.peer = LoadOptions::Peer::kShard,
                             .endpoints = cluster_->data_endpoints(),
                             .workers = cluster_->workers(),
                             .run = cluster_->run(),
                             .epoch = cluster_->epoch(),
                             .threads = placement_.generators,
                             .kept_rounds = kCheckedRounds};
    for (const Segment& segment : layout.segments()) load_options.shards.push_back(segment.shard);
    LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Load> load,
                              Load::Connect(load_options, &pushes));
    // Also warms everything up.
    LONGWAVE_ASSIGN_OR_RETURN(const LoadFigures first, load->Run(kCheckedRounds, {}));

    std::unique_ptr<Load> raw_load;
    if (!options_.no_raw && !options_.check_bytes) {
      load_options.peer = LoadOptions::Peer::kRawRouter;
      load_options.reply_bytes = MergedBytes(*load, pushes.segments());
      LONGWAVE_ASSIGN_OR_RETURN(load_options.endpoints, StartRawRouters(folder));
      LONGWAVE_ASSIGN_OR_RETURN(raw_load, Load::Connect(load_options, &pushes));
      LONGWAVE_RETURN_IF_ERROR(raw_load->Run(kCheckedRounds, {}).status());
    }

    ShardFigures figures;
    figures.workers = workers_;
    figures.segments = pushes.segments();
    figures.parameters = layout.parameter_count();
    figures.coefficients = pushes.coefficients();
    LONGWAVE_ASSIGN_OR_RETURN(const ShardCounts before, cluster_->Counts());
    for (int turn = 0; turn < turns(); ++turn) {
      LONGWAVE_RETURN_IF_ERROR(TakeTurn(*load, cluster_->shards(), &figures.shard));
      if (raw_load == nullptr) continue;
      if (!figures.raw.has_value()) figures.raw.emplace();
      LONGWAVE_RETURN_IF_ERROR(TakeTurn(*raw_load, raw_routers_, &*figures.raw));
    }
    LONGWAVE_ASSIGN_OR_RETURN(const ShardCounts after, cluster_->Counts());
    figures.counted = after.Since(before);
    CompareCounts(&figures);
    for (const auto& shard : cluster_->shards()) {
      LONGWAVE_ASSIGN_OR_RETURN(const uint64_t bytes, ResidentBytesMax(shard->pid()));
      figures.resident_bytes_max = std::max(figures.resident_bytes_max, bytes);
    }
    if (const uint64_t wrong = first.disagreements + figures.shard.load.disagreements; wrong > 0) {
      figures.disagreement = absl::StrCat(wrong, " merged frames are not what another worker got");
    }
    CheckShards(pushes, *load, &figures);
    return figures;
  }

  int turns() const { return options_.rounds > 0 ? 1 : kTurns; }

  absl::Status TakeTurn(Load& load, const std::vector<std::unique_ptr<Process>>& servers,
                        ServedLoad* served) const {
    LONGWAVE_ASSIGN_OR_RETURN(const double before, ProcessorSecondsOf(servers));
    LONGWAVE_ASSIGN_OR_RETURN(const LoadFigures figures,
                              load.Run(options_.rounds, absl::Seconds(options_.seconds) / turns()));
    LONGWAVE_ASSIGN_OR_RETURN(const double after, ProcessorSecondsOf(servers));
    served->load.Add(figures);
    served->processor_seconds += after - before;
    return absl::OkStatus();
  }

  // The shards' counters must equal the load's.
  static void CompareCounts(ShardFigures* figures) {
    const LoadFigures& load = figures->shard.load;
    const ShardCounts by_load{.pushes_accepted = load.accepted,
                              .segments_closed = load.rounds * figures->segments,
                              .bytes_received = load.frame_bytes_sent,
                              .bytes_sent = load.frame_bytes_received,
                              .payload_received = load.payload_sent,
                              .payload_sent = load.payload_received};
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

  absl::StatusOr<std::vector<std::string>> StartRawRouters(const std::string& folder) {
    std::vector<std::string> endpoints;
    for (uint32_t i = 0; i < options_.shards; ++i) {
      std::vector<int> processors;
      if (const auto& all = placement_.shards; !all.empty()) {
        processors.push_back(all[i % all.size()]);
      }
      const ScopedProcessors bound(processors);
      std::string endpoint;
      LONGWAVE_ASSIGN_OR_RETURN(
          std::unique_ptr<Process> process,
          StartAndAwaitReady(absl::StrCat("raw-router-", i),
                             {program_, "--raw-router", absl::StrCat(workers_)}, folder,
                             &endpoint));
      raw_routers_.push_back(std::move(process));
      endpoints.push_back(endpoint);
    }
    return endpoints;
  }

  const BenchShardOptions& options_;
  const ProcessorPlan& placement_;
  const std::string program_;
  const uint32_t workers_;
  RunConfig config_;
  std::unique_ptr<BenchCluster> cluster_;
  std::vector<std::unique_ptr<Process>> raw_routers_;
};

}  // namespace

absl::StatusOr<ShardFigures> MeasureShards(const BenchShardOptions& options,
                                           const ProcessorPlan& placement,
                                           const std::string& program, uint32_t workers) {
  return Measurement(options, placement, program, workers).Take();
}

}  // namespace longwave
