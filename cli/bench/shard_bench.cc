#include "cli/bench/shard_bench.h"

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/bench/shard_check.h"
#include "cli/bench/shard_cluster.h"
#include "cli/bench/shard_figures.h"
#include "cli/bench/shard_machine.h"
#include "cli/bench/shard_payloads.h"
#include "cli/bench/zmq_load.h"
#include "cli/bench/zmq_router.h"
#include "cli/run_folder.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"

namespace longwave {
namespace {

constexpr uint32_t kWorkersMax = 512;
// Merged again and compared, from the first round on: the residual that one leaves is the next
// one's.
constexpr uint32_t kCheckedRounds = 3;
// The shard and the raw router take turns, so that both see the same machine.
constexpr int kTurns = 4;
constexpr uint32_t kGeneratorsMax = 4;
const std::vector<uint32_t> kBytesSweep = {2, 4, 8, 16, 32, 64};

struct Placement {
  std::vector<int> shards;  // processors; empty: anywhere
  std::vector<int> others;
  uint32_t generators = 1;
};

Placement Place(const BenchShardOptions& options) {
  Placement placement;
  const std::vector<int> all = AllowedProcessors();
  const size_t for_shards = std::min<size_t>(options.shards, all.size() > 1 ? all.size() - 1 : 1);
  const size_t left = all.size() - std::min(all.size(), for_shards);
  // A generator is a thread of its own and one of ZeroMQ's.
  placement.generators = std::clamp<uint32_t>(static_cast<uint32_t>(left / 2), 1, kGeneratorsMax);
  if (options.generators > 0) placement.generators = options.generators;
  if (options.no_pin || left == 0) return placement;
  const auto split = all.begin() + static_cast<std::ptrdiff_t>(for_shards);
  placement.shards.assign(all.begin(), split);
  placement.others.assign(split, all.end());
  return placement;
}

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
      "run.preset=longwave", absl::StrCat("run.workers=", workers),
      absl::StrCat("run.shards=", options.shards), absl::StrCat("sync.up.k=", options.k),
      absl::StrCat("sync.up.codec=", std::string(Name(codec))),
      // More than any bench does, and signs of life that hundreds of workers in one process can
      // give on one processor.
      "run.steps=1000000000", "cluster.heartbeat_interval_s=2", "cluster.heartbeat_timeout_s=60"};
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  return ParseConfig("{}", "bench", overrides);
}

// A folder that goes with this object, unless it is to be kept.
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

// One number of workers, from the start of the processes to their end.
class Measurement {
 public:
  Measurement(const BenchShardOptions& options, const Placement& placement, std::string program,
              std::string server, uint32_t workers)
      : options_(options),
        placement_(placement),
        program_(std::move(program)),
        server_(std::move(server)),
        workers_(workers) {}

  absl::StatusOr<ShardFigures> Take() {
    LONGWAVE_ASSIGN_OR_RETURN(config_, ConfigOf(options_, workers_));
    LONGWAVE_ASSIGN_OR_RETURN(
        const Folder folder,
        Folder::Create(options_.log_dir.empty() ? ""
                                                : absl::StrCat(options_.log_dir, "/", workers_)));
    LONGWAVE_ASSIGN_OR_RETURN(
        cluster_,
        BenchCluster::Start({.server = server_,
                             .folder = folder.path(),
                             .config = config_,
                             .manifest = {{{"synthetic", {static_cast<int64_t>(options_.params)}}}},
                             .shard_processors = placement_.shards}));
    const absl::StatusOr<ShardFigures> figures = Measure(folder.path());
    if (!figures.ok()) {
      // A process that has ended says more than a load that waits for it in vain.
      LONGWAVE_RETURN_IF_ERROR(cluster_->Health());
      return figures.status();
    }
    LONGWAVE_RETURN_IF_ERROR(cluster_->Stop());
    return figures;
  }

 private:
  absl::StatusOr<ShardFigures> Measure(const std::string& folder) {
    const Layout& layout = cluster_->layout();
    LONGWAVE_ASSIGN_OR_RETURN(const BenchPushes pushes,
                              BenchPushes::Create(layout, config_.sync.up, workers_));
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
    LONGWAVE_ASSIGN_OR_RETURN(const ShardState before, cluster_->ShardStates());
    for (int turn = 0; turn < turns(); ++turn) {
      LONGWAVE_RETURN_IF_ERROR(TakeTurn(*load, cluster_->shards(), &figures.shard));
      if (raw_load == nullptr) continue;
      if (!figures.raw.has_value()) figures.raw.emplace();
      LONGWAVE_RETURN_IF_ERROR(TakeTurn(*raw_load, raw_routers_, &*figures.raw));
    }
    LONGWAVE_ASSIGN_OR_RETURN(const ShardState after, cluster_->ShardStates());
    NoteCounts(before, after, &figures);
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

  // What the shards have counted must be what the load has.
  static void NoteCounts(const ShardState& before, const ShardState& after, ShardFigures* figures) {
    ShardState& counted = figures->counted;
    counted.pushes_accepted = after.pushes_accepted - before.pushes_accepted;
    counted.segments_closed = after.segments_closed - before.segments_closed;
    counted.bytes_received = after.bytes_received - before.bytes_received;
    counted.bytes_sent = after.bytes_sent - before.bytes_sent;
    const LoadFigures& load = figures->shard.load;
    const std::array<std::pair<uint64_t, uint64_t>, 4> pairs = {{
        {counted.pushes_accepted, load.accepted},
        {counted.segments_closed, load.rounds * figures->segments},
        {counted.bytes_received, load.frame_bytes_sent},
        {counted.bytes_sent, load.frame_bytes_received},
    }};
    for (const auto& [by_shards, by_load] : pairs) {
      if (by_shards == by_load) continue;
      figures->wrong_bytes = absl::StrCat(
          "the shards count ", counted.pushes_accepted, " pushes, ", counted.segments_closed,
          " closes, ", counted.bytes_received, " bytes in, ", counted.bytes_sent,
          " bytes out; the generator ", load.accepted, ", ", load.rounds * figures->segments, ", ",
          load.frame_bytes_sent, ", ", load.frame_bytes_received);
    }
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
                             {program_, "bench", "shard", "--raw-router", absl::StrCat(workers_)},
                             folder, &endpoint));
      raw_routers_.push_back(std::move(process));
      endpoints.push_back(endpoint);
    }
    return endpoints;
  }

  const BenchShardOptions& options_;
  const Placement& placement_;
  const std::string program_;
  const std::string server_;
  const uint32_t workers_;
  RunConfig config_;
  std::unique_ptr<BenchCluster> cluster_;
  std::vector<std::unique_ptr<Process>> raw_routers_;
};

// Two descriptors a connection, and some hundred connections.
void AllowManyFiles() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status Bench(const BenchShardOptions& options) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError("cannot find this program by /proc/self/exe");
  const std::string server = options.server.empty()
                                 ? (program.parent_path() / "longwave-server").string()
                                 : options.server;
  std::vector<uint32_t> sweep = options.sweep;
  if (sweep.empty()) sweep = options.check_bytes ? kBytesSweep : std::vector{options.workers};
  std::sort(sweep.begin(), sweep.end());

  AllowManyFiles();
  const Placement placement = Place(options);
  const ScopedProcessors bound(placement.others);
  std::vector<ShardFigures> runs;
  for (const uint32_t workers : sweep) {
    Measurement measurement(options, placement, program.string(), server, workers);
    LONGWAVE_ASSIGN_OR_RETURN(ShardFigures figures, measurement.Take());
    std::cout << DescribeFigures(figures) << std::flush;
    runs.push_back(std::move(figures));
  }
  for (const Bar& bar : BarsOf(options, runs)) std::cout << DescribeBar(bar) << "\n";
  if (!options.json_file.empty()) {
    LONGWAVE_RETURN_IF_ERROR(WriteFileAtomically(
        options.json_file, FiguresAsJson(options, placement.shards, placement.generators, runs)));
  }
  for (const ShardFigures& run : runs) {
    if (!run.correct()) {
      return absl::DataLossError(
          absl::StrCat("the results with ", run.workers, " workers are not right, see above"));
    }
  }
  return absl::OkStatus();
}

absl::Status BeRawRouter(uint32_t peers) {
  AllowManyFiles();
  return ServeRawRouter(
      peers, [](const std::string& endpoint) { std::cout << "ready " << endpoint << std::endl; });
}

}  // namespace

void AddBenchShardFlags(CLI::App* command, BenchShardOptions* options) {
  const auto workers = CLI::Range(1u, kWorkersMax);
  command->add_option("--workers", options->workers, "Synthetic workers")
      ->check(workers)
      ->capture_default_str();
  command->add_option("--sweep", options->sweep, "Several numbers of workers, one after the other")
      ->delimiter(',')
      ->check(workers);
  command->add_option("--shards", options->shards, "Shard processes")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command->add_option("--params", options->params, "Parameters of the model")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32))
      ->capture_default_str();
  command->add_option("--k", options->k, "Coefficients that a worker sends of a tile of 4096")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  command->add_option("--bits", options->bits, "Bits of a sent value: 1, 2, 4, 8, 16 or 32")
      ->capture_default_str();
  command
      ->add_option("--set", options->overrides,
                   "A setting of the run, key=value; may be given again")
      ->allow_extra_args(false);
  command->add_option("--rounds", options->rounds, "Rounds to measure, instead of a time")
      ->check(CLI::PositiveNumber);
  command->add_option("--seconds", options->seconds, "Time to measure for")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--generators", options->generators,
                   "Threads that play workers; by default as many as the processors bear")
      ->check(CLI::Range(1u, 64u));
  command->add_flag("--check-bytes", options->check_bytes,
                    "A few rounds each with 2 to 64 workers, for the bytes alone");
  command->add_flag("--no-pin", options->no_pin, "Bind no process to a processor");
  command->add_flag("--no-raw", options->no_raw, "Leave out the raw ZeroMQ to compare with");
  command->add_option("--server", options->server, "Another longwave-server to measure");
  command->add_option("--log-dir", options->log_dir, "Folder that keeps the processes' logs");
  command->add_option("--json", options->json_file, "File that gets the figures as JSON");
  command->add_option("--raw-router", options->raw_router)->group("");  // for itself
}

int RunBenchShard(const BenchShardOptions& options) {
  BenchShardOptions settled = options;
  if (settled.check_bytes && settled.rounds == 0) settled.rounds = 2;
  const absl::Status status =
      settled.raw_router > 0 ? BeRawRouter(settled.raw_router) : Bench(settled);
  if (status.ok()) return 0;
  std::cerr << "error: " << status.message() << std::endl;
  return 1;
}

}  // namespace longwave
