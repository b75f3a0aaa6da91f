#include "cli/up.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/cluster.h"
#include "cli/display.h"
#include "cli/interrupts.h"
#include "cli/run_folder.h"
#include "cli/status_feed.h"
#include "cli/summary.h"
#include "cli/view.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"

namespace longwave {
namespace {

constexpr absl::Duration kRefreshInterval = absl::Milliseconds(250);
// From the end of the run until its workers have ended, and from the end of a process until the
// coordinator says that the run is over.
constexpr absl::Duration kAftermathTimeout = absl::Seconds(10);
constexpr absl::Duration kSilenceMax = absl::Seconds(60);
constexpr char kCompilerHeaders[] = "compiler-headers";

absl::StatusOr<std::string> OwnFolder() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  if (size <= 0 || size == static_cast<ssize_t>(sizeof(path))) {
    return absl::InternalError("cannot find this program's own folder by /proc/self/exe");
  }
  return std::filesystem::path(std::string(path, static_cast<size_t>(size))).parent_path().string();
}

// How a run ended, before its figures are in.
struct Verdict {
  RunOutcome outcome;
  std::string failure;
};

Verdict Failed(absl::string_view sentence) { return {RunOutcome::kFailed, std::string(sentence)}; }

// One run from the start of its processes to their end.
class Run {
 public:
  Run(const UpOptions& options, const RunConfig& config, const RunFolder& folder,
      std::string binaries, int interrupt_fd)
      : config_(config),
        folder_(folder),
        display_(Display::Create(options.plain)),
        cluster_({.binaries = std::move(binaries),
                  .listen = ListenAddress(config),
                  .threads = WorkerThreads(config, std::thread::hardware_concurrency())},
                 &config_, &folder_, interrupt_fd) {}

  Summary Execute() {
    Show("starting the processes");
    const absl::Status started = cluster_.Start();
    Verdict verdict = started.ok() ? Watch() : VerdictOf(started);
    if (verdict.outcome == RunOutcome::kStopped) {
      Show("stopping");
      feed_.StopRun("stopped by the user");
    }
    cluster_.Stop([this] { feed_.Refresh(); });
    Show(verdict.failure.empty() ? "" : absl::StrCat("failed: ", verdict.failure));
    display_.reset();
    return Summarize(config_, feed_.status(), verdict.outcome, std::move(verdict.failure),
                     Elapsed());
  }

 private:
  // Until the run is over, one way or another.
  Verdict Watch() {
    feed_.Connect(cluster_.coordinator_address());
    std::optional<absl::Time> aftermath;  // since a process ended or the run was over
    while (true) {
      const absl::Status children = cluster_.Supervise(kRefreshInterval);
      feed_.Refresh();
      Show("");
      if (!children.ok()) return VerdictOf(children);
      switch (feed_.status().phase) {
        case RunPhase::kFailed:
          return Failed(feed_.status().failure);
        case RunPhase::kStopped:
          return {RunOutcome::kStopped, ""};
        case RunPhase::kFinished:
          if (cluster_.WorkersEnded()) return {RunOutcome::kFinished, ""};
          break;
        case RunPhase::kWaiting:
        case RunPhase::kTraining:
          break;
      }
      if (feed_.silence() > kSilenceMax) {
        return Failed(absl::StrCat("the coordinator at ", cluster_.coordinator_address(),
                                   " has not answered for ", absl::FormatDuration(kSilenceMax)));
      }
      if (!feed_.over() && !cluster_.SomethingEnded()) continue;
      aftermath = aftermath.value_or(absl::Now());
      if (absl::Now() - *aftermath < kAftermathTimeout) continue;
      return Failed(feed_.over()
                        ? absl::StrCat("a worker was still there ",
                                       absl::FormatDuration(kAftermathTimeout), " after the run")
                        : "a process ended before the run was over; see the logs");
    }
  }

  Verdict VerdictOf(const absl::Status& status) {
    if (absl::IsCancelled(status)) return {RunOutcome::kStopped, ""};
    // The coordinator has heard of the first failure; a child that ended may be a later one.
    feed_.Refresh();
    const RunStatus& run = feed_.status();
    if (run.phase == RunPhase::kFailed && !run.failure.empty()) return Failed(run.failure);
    return Failed(status.message());
  }

  void Show(std::string note) {
    display_->Update({.config = &config_,
                      .status = &feed_.status(),
                      .run_folder = folder_.path(),
                      .coordinator_address = cluster_.coordinator_address(),
                      .elapsed_s = Elapsed(),
                      .note = std::move(note)});
  }

  double Elapsed() const { return absl::ToDoubleSeconds(absl::Now() - begin_); }

  const absl::Time begin_ = absl::Now();
  const RunConfig& config_;
  const RunFolder& folder_;
  std::unique_ptr<Display> display_;
  StatusFeed feed_;
  Cluster cluster_;
};

absl::StatusOr<Summary> Execute(const UpOptions& options, int interrupt_fd,
                                std::string* run_folder) {
  LONGWAVE_ASSIGN_OR_RETURN(std::string binaries, OwnFolder());
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, ResolveConfig(options));
  LONGWAVE_ASSIGN_OR_RETURN(const RunFolder folder,
                            RunFolder::Create(options.runs_dir, config, absl::Now()));
  LONGWAVE_RETURN_IF_ERROR(WriteFileAtomically(folder.config_file(), FormatConfig(config)));
  *run_folder = folder.path();
  const Summary summary = Run(options, config, folder, std::move(binaries), interrupt_fd).Execute();
  LONGWAVE_RETURN_IF_ERROR(WriteSummary(summary, folder.summary_file()));
  return summary;
}

}  // namespace

absl::StatusOr<RunConfig> ResolveConfig(const UpOptions& options) {
  Overrides overrides = options.overrides;
  if (!options.name.empty()) overrides.push_back(absl::StrCat("run.name=", options.name));
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, LoadConfig(options.config_file, overrides));
  if (!options.data.empty()) config.data.path = options.data;
  if (config.data.path == kCompilerHeaders) return config;
  std::error_code error;
  if (!std::filesystem::exists(config.data.path, error)) {
    return absl::NotFoundError(absl::StrCat("data.path: got ", config.data.path,
                                            ", which does not exist; wanted a file, a folder or ",
                                            kCompilerHeaders));
  }
  config.data.path = std::filesystem::absolute(config.data.path).lexically_normal().string();
  return config;
}

std::string ListenAddress(const RunConfig& config) {
  static constexpr std::string_view kAnyFreePort = "127.0.0.1:0";
  return config.cluster.coordinator == DefaultConfig().cluster.coordinator
             ? std::string(kAnyFreePort)
             : config.cluster.coordinator;
}

int RunUp(const UpOptions& options) {
  absl::StatusOr<Interrupts> interrupts = Interrupts::Block();
  std::string run_folder;
  const absl::StatusOr<Summary> summary =
      interrupts.ok() ? Execute(options, interrupts->fd(), &run_folder) : interrupts.status();
  if (!summary.ok()) {
    std::fprintf(stderr, "longwave up: failed: %s\n",
                 std::string(summary.status().message()).c_str());
    return 1;
  }
  if (summary->rounds > 0) {
    std::printf("\n");
    for (const std::string& line : FinalLines(*summary, run_folder)) {
      std::printf("%s\n", line.c_str());
    }
    std::fflush(stdout);
  }
  const bool failed = summary->outcome == RunOutcome::kFailed;
  std::fprintf(failed ? stderr : stdout, "%s\n", ClosingLine(*summary, run_folder).c_str());
  if (failed) std::fprintf(stderr, "logs are in %s/logs\n", run_folder.c_str());
  if (summary->outcome == RunOutcome::kFinished) return 0;
  const std::optional<int> signal = interrupts->Take();
  return signal && !failed ? 128 + *signal : 1;
}

}  // namespace longwave
