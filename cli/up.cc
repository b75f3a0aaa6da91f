#include "cli/up.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/cluster.h"
#include "cli/display.h"
#include "cli/generate.h"
#include "cli/interrupts.h"
#include "cli/live_page.h"
#include "cli/programs/programs.h"
#include "cli/report/report.h"
#include "cli/run_folder.h"
#include "cli/screen.h"
#include "cli/status_feed.h"
#include "cli/summary.h"
#include "cli/view.h"
#include "cli/worker_command.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/security/security_mode.h"

namespace longwave {
namespace {

// The limit from the end of the run to the end of its workers.
constexpr absl::Duration kAftermathTimeout = absl::Seconds(60);
// The limit from a worker's end to the coordinator's report that the run is over, if it answers.
constexpr absl::Duration kEarlyEndTimeout = absl::Milliseconds(1500);
// The limit for one answer of a coordinator that may be busy.
constexpr absl::Duration kAnswerPatience = absl::Seconds(15);
constexpr absl::Duration kReasonPatience = absl::Seconds(5);
// The limit for workers that write a checkpoint, or the weights of a stopped run.
constexpr absl::Duration kWritingTimeout = absl::Seconds(30);
// The limit from there to the end of all processes.
constexpr absl::Duration kStopTimeout = absl::Milliseconds(2400);
// For a person to read a line of the live view.
constexpr absl::Duration kNoticeTime = absl::Seconds(5);

// Prints the command's last lines.
void PrintClosing(const Summary& summary, const std::string& run_folder) {
  for (const std::string& warning : summary.warnings)
    PrintWrapped(stdout, absl::StrCat("warning: ", warning), Hue::kDoubtful);
  std::FILE* const file = summary.outcome == RunOutcome::kFailed ? stderr : stdout;
  PrintWrapped(file, ClosingLine(summary, run_folder),
               summary.outcome == RunOutcome::kFinished ? Hue::kGood
               : file == stderr                         ? Hue::kBad
                                                        : Hue::kPlain);
}

// The end of a run, before its figures are known.
struct Verdict {
  RunOutcome outcome;
  std::string failure;
};

Verdict Failed(absl::string_view sentence) { return {RunOutcome::kFailed, std::string(sentence)}; }

// A run from the start of its processes to their end.
class Run {
 public:
  Run(const UpOptions& options, const RunConfig& config, const RunFolder& folder,
      ClusterOptions cluster, Interrupts* interrupts, LivePage* page)
      : config_(config),
        folder_(folder),
        interrupts_(interrupts),
        page_(page),
        keeps_state_(cluster.keep_state),
        credentials_(cluster.credentials),
        display_(Display::Create(options.plain)),
        workers_are_commands_(!cluster.worker_command.empty()),
        cluster_(std::move(cluster), &config_, &folder_, interrupts->fd()) {}

  Summary Execute() {
    Show("starting the processes");
    const absl::Status started = cluster_.Start();
    Verdict verdict = started.ok() ? Watch() : VerdictOf(started);
    bool answers = true;
    if (verdict.outcome == RunOutcome::kParked) {
      Show("parking: the workers write checkpoints; Ctrl-C once more ends them at once");
      feed_.Refresh();
      cluster_.Park(MonotonicNow() + kWritingTimeout);
    } else if (verdict.outcome == RunOutcome::kStopped || IsLostWithoutWeights(verdict)) {
      Show("stopping: the weights are written; Ctrl-C once more ends it at once");
      const std::string reason = verdict.failure.empty() ? "stopped by the user" : verdict.failure;
      Answered(absl::Seconds(config_.cluster.heartbeat_timeout_s) + kAnswerPatience,
               [this] { return KnowsWhoIsGone(); });
      answers = Answered(kAnswerPatience, [&] { return feed_.over() || feed_.StopRun(reason); });
      if (answers) cluster_.AwaitWorkers(MonotonicNow() + kWritingTimeout);
    } else if (feed_.status().phase == RunPhase::kFailed) {
      // The workers hear of the end, and the one that validates writes the weights learnt before.
      cluster_.AwaitWorkers(MonotonicNow() + kWritingTimeout);
    }
    // A coordinator that hangs gets no last status request.
    std::function<void()> last_look;
    if (answers) last_look = [this] { feed_.Refresh(); };
    // A worker without state writes the weights now, where the coordinator has gone.
    const bool writes = verdict.outcome == RunOutcome::kFailed && !keeps_state_ && !feed_.over();
    cluster_.Stop(MonotonicNow() + (writes ? kWritingTimeout : kStopTimeout),
                  StatusFeed::kCallTimeout, last_look);
    // Another process may take the ports, and a Prometheus would scrape it twice.
    for (const std::string& file : {folder_.targets_file(), folder_.address_file()})
      std::remove(file.c_str());
    Summary summary =
        Summarize(config_, feed_.status(), verdict.outcome, std::move(verdict.failure), Elapsed());
    summary.restarts = cluster_.restarts();
    // The coordinator reports no model file for a run that did not finish.
    if (summary.model_file.empty() && std::filesystem::exists(folder_.model_file()))
      summary.model_file = folder_.model_file();
    Show("");  // the command's last line has the failure
    ViewInput input = Input();
    input.is_whole = true;
    input.end = &summary;
    if (summary.rounds > 0) display_->End(input);
    display_.reset();
    return summary;
  }

  // After Execute: the signal that ended the run, if any.
  std::optional<int> signal() const { return signal_; }

 private:
  // Waits for the end of the run.
  Verdict Watch() {
    feed_.Connect(cluster_.coordinator_address(), credentials_.operator_folder());
    std::optional<absl::Time> over_since;
    absl::Time ended_since = absl::InfiniteFuture();
    bool was_silent = false;
    while (true) {
      const absl::Status children = cluster_.Supervise(StatusFeed::kInterval);
      feed_.Refresh();
      for (const std::string& notice : cluster_.TakeNotices()) Notice(notice);
      Show("");
      if (!children.ok()) {
        // A process that was restarted around the run's end fails since the run is over.
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
          return {RunOutcome::kStopped, ""};  // from another command
        case RunPhase::kFinished:
          if (cluster_.WorkersEnded()) return {RunOutcome::kFinished, ""};
          break;
        case RunPhase::kWaiting:
        case RunPhase::kTraining:
          break;
      }
      // `up` itself may have been stopped for as long.
      const bool is_silent = feed_.silence() > StatusFeed::kSilenceMax &&
                             !Answered(kReasonPatience, [this] { return feed_.Refresh(); });
      if (is_silent) {
        const std::string sentence =
            absl::StrCat("the coordinator at ", cluster_.coordinator_address(),
                         " has not answered for ", absl::FormatDuration(StatusFeed::kSilenceMax));
        if (feed_.silence() > AwayTimeout(config_)) return Failed(sentence);
        if (!was_silent) Notice(absl::StrCat(sentence, "; the run waits for it"));
      }
      was_silent = is_silent;
      const absl::Time now = MonotonicNow();
      // A user's command may work on after the run, without a limit.
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
      // A worker may end shortly before the status says that the run is over; a server may not.
      ended_since = std::min(ended_since, now);
      if (cluster_.IsWorker(*ended) && now - ended_since < kEarlyEndTimeout) continue;
      // A coordinator that is busy may still have the end to say.
      const bool answered = feed_.Refresh();
      if (feed_.over() || (cluster_.IsWorker(*ended) && !answered)) continue;
      return Failed(absl::StrCat(ended->name(), " ended (exit status 0) before the run was over"));
    }
  }

  // Whether some workers still train when others have ended well: those were told to leave, and the
  // run goes on without them. Prints a line for each once.
  bool OthersTrain(absl::Time now) {
    const std::vector<const Process*> ended = cluster_.EndedWorkers();
    if (ended.size() == config_.run.workers) return false;
    for (const Process* worker : ended) {
      const absl::Time since = left_since_.emplace(worker->name(), now).first->second;
      // The worker may also have been the first to hear that the run is over.
      if (now - since < kEarlyEndTimeout || !said_to_have_left_.insert(worker->name()).second) {
        continue;
      }
      Notice(absl::StrCat(worker->name(), " has left the run (exit status 0); the others go on"));
    }
    return true;
  }

  // Whether the weights are all that is left of a failed run, and the coordinator can still have
  // them written.
  bool IsLostWithoutWeights(const Verdict& verdict) {
    return verdict.outcome == RunOutcome::kFailed && !keeps_state_ && feed_.Refresh() &&
           feed_.status().phase == RunPhase::kTraining;
  }

  // Whether the coordinator counts on none of the workers that have ended, one of whom may have had
  // the duty to write the weights.
  bool KnowsWhoIsGone() {
    feed_.Refresh();
    if (feed_.over() || cluster_.WorkersEnded()) return true;
    const auto& members = feed_.status().members;
    return std::ranges::all_of(cluster_.EndedWorkers(), [&](const Process* worker) {
      return std::ranges::none_of(members, [&](const auto& member) {
        return member.member.name == worker->name() && member.state.phase != WorkerPhase::kLost &&
               member.state.phase != WorkerPhase::kDone;
      });
    });
  }

  // Calls until the coordinator has answered. False if a signal comes or it takes too long.
  bool Answered(absl::Duration patience, const std::function<bool()>& call) {
    const absl::Time give_up = MonotonicNow() + patience;
    while (!call()) {
      if (!feed_.is_connected()) return false;
      pollfd interrupted = {interrupts_->fd(), POLLIN, 0};
      const auto pause = static_cast<int>(absl::ToInt64Milliseconds(StatusFeed::kInterval));
      if (MonotonicNow() > give_up || poll(&interrupted, 1, pause) > 0) return false;
    }
    return true;
  }

  Verdict VerdictOf(const absl::Status& status) {
    if (absl::IsCancelled(status)) {
      signal_ = interrupts_->Take();
      return {keeps_state_ ? RunOutcome::kParked : RunOutcome::kStopped, ""};
    }
    // The coordinator knows the first failure; a child that ended may be a later one, or the
    // coordinator itself.
    Answered(kReasonPatience, [this] { return feed_.Refresh(); });
    const RunStatus& run = feed_.status();
    if (run.phase == RunPhase::kFailed && !run.failure.empty()) return Failed(run.failure);
    return Failed(status.message());
  }

  // Shows what happens beside training: once in a log, and for kNoticeTime in the live view.
  void Notice(const std::string& text) {
    Show(text);
    notice_ = text;
    notice_end_ = MonotonicNow() + kNoticeTime;
    Show("");
  }

  void Show(std::string note) {
    ViewInput input = Input();
    input.note = std::move(note);
    display_->Update(input);
    if (page_) page_->Update(feed_.status(), input.note.empty() ? input.notice : input.note);
  }

  ViewInput Input() const {
    return {.config = &config_,
            .status = &feed_.status(),
            .run_folder = folder_.path(),
            .coordinator_address = cluster_.coordinator_address(),
            .elapsed_s = Elapsed(),
            .restarts = cluster_.restarts(),
            .notice = MonotonicNow() < notice_end_ ? notice_ : ""};
  }

  double Elapsed() const { return absl::ToDoubleSeconds(MonotonicNow() - begin_); }

  const absl::Time begin_ = MonotonicNow();
  const RunConfig& config_;
  const RunFolder& folder_;
  Interrupts* const interrupts_;
  LivePage* const page_;       // null: none
  std::optional<int> signal_;  // the one that ended the run
  const bool keeps_state_;
  const ClusterCredentials credentials_;
  std::unique_ptr<Display> display_;
  StatusFeed feed_;
  const bool workers_are_commands_;
  std::string notice_;
  absl::Time notice_end_ = absl::InfinitePast();
  Cluster cluster_;
  std::map<std::string, absl::Time> left_since_;  // by worker
  std::set<std::string> said_to_have_left_;
};

// The results of a run, and the signal that ended it, if any.
struct RunEnd {
  Summary summary;
  std::string run_folder;
  std::optional<int> signal;
};

absl::StatusOr<RunEnd> Execute(UpOptions options) {
  std::optional<RunFolder> resumed;
  if (!options.resume.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(resumed,
                              RunFolder::Open(FindRunFolder(options.resume, options.runs_dir)));
    options.config_file = resumed->config_file();
  }
  DataReport data;
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, ResolveConfig(options, &data));
  ClusterOptions cluster = {.listen = ListenAddress(config),
                            .threads = WorkerThreads(config),
                            .keep_state = !options.no_state,
                            .continues = !options.resume.empty()};
  LONGWAVE_ASSIGN_OR_RETURN(cluster.binaries, OwnFolder());
  if (options.worker_command.has_value()) {
    LONGWAVE_ASSIGN_OR_RETURN(cluster.worker_command, ParseWorkerCommand(*options.worker_command));
  } else {
    LONGWAVE_ASSIGN_OR_RETURN(cluster.worker_binaries, WorkerFolder());
  }
  const std::string& written = resumed ? resumed->path() : options.runs_dir;
  LONGWAVE_RETURN_IF_ERROR(
      CheckMachine(config, options.no_state ? "" : written, cluster.worker_binaries));
  if (!options.start_from.empty()) {
    cluster.place = [&options](const std::string& process) -> Placement {
      if (!process.starts_with("worker-")) return {};
      return {.arguments = {"--start-from", options.start_from}};
    };
  }
  // Until here a signal ends the program: a configuration or data may take any time to be read.
  LONGWAVE_ASSIGN_OR_RETURN(Interrupts interrupts, Interrupts::Block());
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<LivePage> page,
      LivePage::Start(options.web, resumed ? resumed->name() : config.run.name, config));
  if (!resumed.has_value()) {
    LONGWAVE_ASSIGN_OR_RETURN(resumed, RunFolder::Create(options.runs_dir, config, absl::Now()));
  }
  const RunFolder& folder = *resumed;
  if (!options.resume.empty())
    LONGWAVE_RETURN_IF_ERROR(CheckSameRun(folder, options.overrides, config));
  LONGWAVE_RETURN_IF_ERROR(WriteFile(folder.config_file(), FormatConfig(config)));
  if (!data.lines.empty()) LONGWAVE_RETURN_IF_ERROR(TellData(folder, data));
  const bool is_secured =
      IsSecured(config.security.mode, {cluster.listen, config.cluster.shard_host});
  cluster.credentials = ClusterCredentials(is_secured ? folder.security_folder() : "");
  LONGWAVE_RETURN_IF_ERROR(cluster.credentials.Make(config));
  Run run(options, config, folder, std::move(cluster), &interrupts, page.get());
  RunEnd ended = {.summary = run.Execute(), .run_folder = folder.path(), .signal = run.signal()};
  LONGWAVE_RETURN_IF_ERROR(WriteFile(folder.summary_file(), FormatSummaryJson(ended.summary)));
  return ended;
}

}  // namespace

int RunUp(const UpOptions& options) {
  // A reader of the output that has gone (`| tee`) does not end the run before its checkpoints.
  std::signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<RunEnd> ended = Execute(options);
  if (!ended.ok()) {
    PrintLine(stderr, "longwave up: failed: ", ended.status().message());
    return 1;
  }
  const auto& [summary, run_folder, signal] = *ended;
  constexpr uint64_t kSampledParametersMax = 30'000'000;  // of a larger model it takes too long
  if (summary.outcome == RunOutcome::kFinished && summary.params <= kSampledParametersMax)
    PrintSample(run_folder);
  const absl::Status reported = WriteReport({run_folder}, run_folder + kReportFile);
  PrintLine(
      reported.ok() ? stdout : stderr, "report    ",
      reported.ok() ? absl::StrCat(run_folder, kReportFile) : std::string(reported.message()));
  PrintClosing(summary, run_folder);
  const bool failed = summary.outcome == RunOutcome::kFailed;
  if (failed) PrintLine(stderr, "logs are in ", run_folder, "/logs");
  if (failed && !options.no_state) {
    PrintLine(stderr, "once the cause is mended it goes on with: longwave up --resume ",
              ForShell(run_folder));
  }
  if (summary.outcome == RunOutcome::kFinished) return 0;
  return signal && !failed ? 128 + *signal : 1;
}

}  // namespace longwave
