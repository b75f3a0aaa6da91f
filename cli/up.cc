#include "cli/up.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/cluster.h"
#include "cli/display.h"
#include "cli/generate.h"
#include "cli/interrupts.h"
#include "cli/preflight.h"
#include "cli/programs/programs.h"
#include "cli/run_folder.h"
#include "cli/screen.h"
#include "cli/status_feed.h"
#include "cli/summary.h"
#include "cli/view.h"
#include "cli/worker_command.h"
#include "common/base/clock.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/config/config.h"
#include "common/security/security_mode.h"
#include "worker/data/corpus.h"

namespace longwave {
namespace {

constexpr absl::Duration kRefreshInterval = absl::Milliseconds(250);
// From the end of the run until its workers have ended.
constexpr absl::Duration kAftermathTimeout = absl::Seconds(10);
// From a worker's end until the coordinator says that the run is over.
constexpr absl::Duration kEarlyEndTimeout = absl::Milliseconds(1500);
// From the end, or from when an interrupt is seen (which takes up to StatusFeed::kCallTimeout)
// until no process is left: within three seconds of Ctrl-C.
constexpr absl::Duration kStopTimeout = absl::Milliseconds(2400);
constexpr absl::Duration kSilenceMax = absl::Seconds(60);
constexpr absl::Duration kSamplePatience = absl::Seconds(10);

// In a terminal, lines are broken between words.
void Print(std::FILE* file, const std::string& line, size_t indent, Hue hue = Hue::kPlain) {
  for (const std::string& part : WrapWords(Printable(line), StyleOf(file).width, indent)) {
    PrintPainted(file, part, hue);
  }
}

Hue HueOf(RunOutcome outcome) {
  if (outcome == RunOutcome::kFinished) return Hue::kGood;
  return outcome == RunOutcome::kFailed ? Hue::kBad : Hue::kPlain;
}

// A few lines of what the model has learnt to write, if that takes no longer than looking at them.
void PrintSample(const Summary& summary, const std::string& run_folder) {
  constexpr uint64_t kParametersMax = 30'000'000;
  constexpr size_t kLinesMax = 8;
  if (summary.outcome != RunOutcome::kFinished || summary.params > kParametersMax ||
      !std::filesystem::exists(run_folder + "/config.json")) {
    return;
  }
  const auto lines = SampleLines({.folder = run_folder}, kSamplePatience);
  if (!lines.ok()) return;
  PrintLine(stdout, "");
  PrintLine(stdout, absl::StrCat("a sample of the model (longwave generate ", run_folder, ")"));
  for (size_t i = 0; i < std::min(lines->size(), kLinesMax); ++i)
    PrintLine(stdout, FitWidth(absl::StrCat("    ", (*lines)[i]), StyleOf(stdout).width));
  PrintLine(stdout, "");
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
      std::string binaries, std::vector<std::string> worker_command,
      const ClusterCredentials& credentials, int interrupt_fd)
      : config_(config),
        folder_(folder),
        credentials_(credentials),
        display_(Display::Create(options.plain)),
        workers_are_commands_(!worker_command.empty()),
        cluster_({.binaries = std::move(binaries),
                  .listen = ListenAddress(config),
                  .worker_command = std::move(worker_command),
                  .threads = WorkerThreads(config, std::thread::hardware_concurrency()),
                  .keep_state = !options.no_state,
                  .credentials = credentials},
                 &config_, &folder_, interrupt_fd) {}

  Summary Execute() {
    Show("starting the processes");
    const absl::Status started = cluster_.Start();
    Verdict verdict = started.ok() ? Watch() : VerdictOf(started);
    const absl::Time deadline = MonotonicNow() + kStopTimeout;
    bool answers = true;
    if (verdict.outcome == RunOutcome::kStopped) {
      Show("stopping");
      answers = feed_.StopRun("stopped by the user");
    }
    // A coordinator that hangs is not asked for a last figure.
    std::function<void()> last_look;
    if (answers) last_look = [this] { feed_.Refresh(); };
    cluster_.Stop(deadline, StatusFeed::kCallTimeout, last_look);
    Show("");  // a failure is what the command closes with
    display_.reset();
    Summary summary =
        Summarize(config_, feed_.status(), verdict.outcome, std::move(verdict.failure), Elapsed());
    summary.restarts = cluster_.restarts();
    return summary;
  }

 private:
  // Until the run is over, one way or another.
  Verdict Watch() {
    feed_.Connect(cluster_.coordinator_address(), credentials_.operator_folder());
    std::optional<absl::Time> over_since;
    absl::Time ended_since = absl::InfiniteFuture();
    while (true) {
      const absl::Status children = cluster_.Supervise(kRefreshInterval);
      feed_.Refresh();
      for (std::string& notice : cluster_.TakeNotices()) Show(std::move(notice));
      Show("");
      if (!children.ok()) {
        // What was started again around the run's end finds that it is over.
        const bool is_over = feed_.status().phase == RunPhase::kFinished;
        if (absl::IsAborted(children) && is_over && cluster_.restarts() > 0) {
          return {RunOutcome::kFinished, ""};
        }
        return VerdictOf(children);
      }
      switch (feed_.status().phase) {
        case RunPhase::kFailed:
          return Failed(feed_.status().failure);
        case RunPhase::kStopped:
          // Not by us: we ask for it after this alone.
          return Failed("coordinator was told to end before the run was over");
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
      const absl::Time now = MonotonicNow();
      // A command may have work of its own after the run, for as long as that takes.
      if (feed_.over() && workers_are_commands_) continue;
      if (feed_.over()) {
        over_since = over_since.value_or(now);
        if (now - *over_since < kAftermathTimeout) continue;
        return Failed(absl::StrCat("a worker was still there ",
                                   absl::FormatDuration(kAftermathTimeout), " after the run"));
      }
      const Process* ended = cluster_.FirstEnded();
      if (ended == nullptr) continue;
      if (cluster_.IsWorker(*ended) && OthersTrain(now)) {
        ended_since = absl::InfiniteFuture();
        continue;
      }
      // A worker may end a moment before the status says that the run is over; a server may not.
      ended_since = std::min(ended_since, now);
      if (cluster_.IsWorker(*ended) && now - ended_since < kEarlyEndTimeout) continue;
      feed_.Refresh();
      if (feed_.over()) continue;
      return Failed(absl::StrCat(ended->name(), " ended (exit status 0) before the run was over"));
    }
  }

  // Whether some workers are still there when others have ended well: told to leave, they have
  // taken their leave of the run, which goes on without them. Says so of each once.
  bool OthersTrain(absl::Time now) {
    const std::vector<const Process*> ended = cluster_.EndedWorkers();
    if (ended.size() == config_.run.workers) return false;
    for (const Process* worker : ended) {
      const absl::Time since = left_since_.emplace(worker->name(), now).first->second;
      // Or it was the first to hear that the run is over.
      if (now - since < kEarlyEndTimeout || !said_to_have_left_.insert(worker->name()).second) {
        continue;
      }
      Show(absl::StrCat(worker->name(), " has left the run (exit status 0); the others go on"));
    }
    return true;
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
                      .restarts = cluster_.restarts(),
                      .note = std::move(note)});
  }

  double Elapsed() const { return absl::ToDoubleSeconds(MonotonicNow() - begin_); }

  const absl::Time begin_ = MonotonicNow();
  const RunConfig& config_;
  const RunFolder& folder_;
  const ClusterCredentials credentials_;
  std::unique_ptr<Display> display_;
  StatusFeed feed_;
  const bool workers_are_commands_;
  Cluster cluster_;
  std::map<std::string, absl::Time> left_since_;  // by worker
  std::set<std::string> said_to_have_left_;
};

absl::StatusOr<Summary> Execute(const UpOptions& options, int interrupt_fd,
                                std::string* run_folder) {
  LONGWAVE_ASSIGN_OR_RETURN(std::string binaries, OwnFolder());
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, ResolveConfig(options));
  std::vector<std::string> worker_command;
  if (options.worker_command.has_value()) {
    LONGWAVE_ASSIGN_OR_RETURN(worker_command, ParseWorkerCommand(*options.worker_command));
  }
  LONGWAVE_ASSIGN_OR_RETURN(const RunFolder folder,
                            RunFolder::Create(options.runs_dir, config, absl::Now()));
  LONGWAVE_RETURN_IF_ERROR(WriteFileAtomically(folder.config_file(), FormatConfig(config)));
  *run_folder = folder.path();
  const bool is_secured =
      IsSecured(config.security.mode, {ListenAddress(config), config.cluster.shard_host});
  const ClusterCredentials credentials(is_secured ? folder.security_folder() : "");
  LONGWAVE_RETURN_IF_ERROR(credentials.Make(config));
  const Summary summary = Run(options, config, folder, std::move(binaries),
                              std::move(worker_command), credentials, interrupt_fd)
                              .Execute();
  LONGWAVE_RETURN_IF_ERROR(WriteSummary(summary, folder.summary_file()));
  return summary;
}

}  // namespace

absl::StatusOr<RunConfig> ResolveConfig(const UpOptions& options) {
  if (options.config_file.empty() && !options.worker_command.has_value()) {
    return absl::InvalidArgumentError(
        "got no configuration, wanted a file such as configs/longwave.yaml, or --worker-command");
  }
  Overrides overrides;
  // In front, so that --set may still say otherwise.
  if (options.worker_command.has_value()) {
    overrides = {"model.kind=external", "run.start=member"};
  }
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  if (!options.name.empty()) overrides.push_back(absl::StrCat("run.name=", options.name));
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, options.config_file.empty()
                                                  ? ParseConfig("{}", "the command line", overrides)
                                                  : LoadConfig(options.config_file, overrides));
  if (options.worker_command.has_value()) {
    if (!options.data.has_value()) return config;
    return absl::InvalidArgumentError(
        "--data: got one beside --worker-command, whose workers have data of their own; wanted the "
        "path in the command");
  }
  if (config.model.kind == "external") {
    return absl::InvalidArgumentError(
        "model.kind: got external, which longwave-worker has not; wanted --worker-command beside "
        "it");
  }
  if (options.data.has_value()) {
    if (options.data->empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--data: got an empty path, wanted a file, a folder or ", kCompilerHeaders));
    }
    config.data.path = *options.data;
  }
  LONGWAVE_RETURN_IF_ERROR(CheckRun(config));
  if (config.data.path != kCompilerHeaders) {
    config.data.path = std::filesystem::absolute(config.data.path).lexically_normal().string();
  }
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
    PrintLine(stderr, absl::StrCat("longwave up: failed: ", summary.status().message()));
    return 1;
  }
  if (summary->rounds > 0) {
    PrintLine(stdout, "");
    for (const std::string& line : FinalLines(*summary, run_folder)) {
      Print(stdout, line, kFinalNameColumns);
    }
    PrintSample(*summary, run_folder);
  }
  const bool failed = summary->outcome == RunOutcome::kFailed;
  Print(failed ? stderr : stdout, ClosingLine(*summary, run_folder), 0, HueOf(summary->outcome));
  if (failed) PrintLine(stderr, absl::StrCat("logs are in ", run_folder, "/logs"));
  if (summary->outcome == RunOutcome::kFinished) return 0;
  const std::optional<int> signal = interrupts->Take();
  return signal && !failed ? 128 + *signal : 1;
}

}  // namespace longwave
