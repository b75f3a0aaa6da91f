#include "cli/cluster.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/scrape_targets.h"
#include "cli/worker_command.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/base/threads.h"
#include "common/config/key_types.h"

namespace longwave {
namespace {

int PollTimeoutMs(absl::Duration duration) {
  return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 0, 60'000));
}

// The process's name and its sentence, which may begin with the name already.
std::string NamedFailure(const Process& process) {
  std::string sentence = process.FailureSentence();
  const std::string prefix = absl::StrCat(process.name(), ": ");
  return absl::StartsWith(sentence, prefix) ? sentence : prefix + sentence;
}

// The limit for a server's start.
constexpr absl::Duration kReadyTimeout = absl::Seconds(60);
// The limit for the end of a parked coordinator.
constexpr absl::Duration kCoordinatorPatience = absl::Seconds(2);
// The part of the stopping time for a coordinator that knows that the run is over.
constexpr absl::Duration kCoordinatorTime = absl::Milliseconds(350);
// A child's output ends shortly before its end can be waited for.
constexpr absl::Duration kReapInterval = absl::Milliseconds(20);
// The part of a command's log that is searched for its metrics address, printed when it joins.
constexpr size_t kLogHeadBytes = 64 * 1024;
// Of one running child at a time: one that never pauses does not keep the others waiting.
constexpr int kLinesMax = 1000;

// The argument after `flag`.
std::string* ArgumentOf(std::vector<std::string>& argv, absl::string_view flag) {
  const auto place = std::ranges::find(argv, flag);
  return place == argv.end() || place + 1 == argv.end() ? nullptr : &*(place + 1);
}

}  // namespace

uint32_t WorkerThreads(const RunConfig& config) {
  return config.train.threads > 0 ? config.train.threads : DefaultThreads(config.run.workers);
}

Cluster::Cluster(ClusterOptions options, const RunConfig* config, const RunFolder* folder,
                 int interrupt_fd)
    : options_(std::move(options)), config_(config), folder_(folder), interrupt_fd_(interrupt_fd) {}

absl::Status Cluster::Start() {
  const absl::Time deadline = MonotonicNow() + kReadyTimeout;
  const std::string server = options_.binaries + "/longwave-server";
  const std::string config_file = folder_->config_file();
  std::remove(folder_->address_file().c_str());  // that of an `up` that was killed
  Child* coordinator = nullptr;
  std::vector<std::string> arguments = {server,      "--role=coordinator", "--config",
                                        config_file, "--listen",           options_.listen,
                                        "--run-dir", folder_->path()};
  if (options_.continues) arguments.emplace_back("--continue-failed");
  LONGWAVE_RETURN_IF_ERROR(Launch("coordinator", std::move(arguments), 1, &coordinator));
  LONGWAVE_RETURN_IF_ERROR(AwaitReady(coordinator, deadline, &coordinator_address_));
  // For other commands alone, which name the run by its folder.
  WriteFile(folder_->address_file(), coordinator_address_ + "\n").IgnoreError();

  std::vector<Child*> shards(config_->run.shards);
  for (uint32_t i = 0; i < config_->run.shards; ++i) {
    const std::string name = absl::StrCat("shard-", i);
    std::string endpoint = PlaceOf(name).data_endpoint;
    if (endpoint.empty()) endpoint = absl::StrCat("tcp://", config_->cluster.shard_host, ":0");
    LONGWAVE_RETURN_IF_ERROR(
        Launch(name,
               {server, "--role=shard", "--shard", absl::StrCat(i), "--config", config_file,
                "--coordinator", coordinator_address_, "--listen", endpoint},
               1, &shards[i]));
  }
  for (Child* shard : shards) {
    std::string endpoint;
    LONGWAVE_RETURN_IF_ERROR(AwaitReady(shard, deadline, &endpoint));
  }
  for (uint32_t i = 0; i < config_->run.workers; ++i) {
    Child* started = nullptr;
    const std::string name = absl::StrCat("worker-", i);
    if (!options_.worker_command.empty()) {
      LONGWAVE_RETURN_IF_ERROR(LaunchCommand(name));
      continue;
    }
    LONGWAVE_RETURN_IF_ERROR(
        Launch(name,
               {options_.worker_binaries + "/longwave-worker", "--config", config_file, "--name",
                name, "--coordinator", coordinator_address_, "--run-dir", folder_->path(),
                "--threads", absl::StrCat(options_.threads)},
               options_.threads, &started));
  }
  started_ = true;
  return absl::OkStatus();
}

absl::Status Cluster::Launch(const std::string& name, std::vector<std::string> argv,
                             uint32_t threads, Child** child) {
  ProcessOptions options{.name = name};
  Placement place = PlaceOf(name);
  options.argv = std::move(place.prefix);
  if (options_.keep_state) {
    argv.push_back("--state-dir");
    argv.push_back(folder_->state_folder(name));
  }
  // Each process has a port of its own, whatever the configuration says for a single one.
  if (const std::string metrics = MetricsAddress(); !metrics.empty()) {
    argv.insert(argv.end(), {"--metrics", metrics});
    // Somebody may have given the folder a name that no run can have.
    if (const std::string run = folder_->name(); IsFolderName(run))
      argv.insert(argv.end(), {"--set", absl::StrCat("run.name=", run)});
  }
  std::vector<std::string> security = options_.credentials.ArgumentsOf(name);
  for (auto* part : {&argv, &security, &place.arguments}) {
    options.argv.insert(options.argv.end(), part->begin(), part->end());
  }
  return Spawn(std::move(options), threads, child);
}

absl::Status Cluster::LaunchCommand(const std::string& name) {
  ProcessOptions options{
      .name = name,
      .argv = options_.worker_command,
      .environment =
          {{kCoordinatorVariable, coordinator_address_},
           {kNameVariable, name},
           {kRunDirVariable, folder_->path()},
           {kWorkersVariable, absl::StrCat(config_->run.workers)},
           {kSecurityVariable,
            options_.credentials.is_on() ? options_.credentials.FolderOf(name) : "off"},
           // Clears those of another run that the caller of `up` may have in the environment.
           {kTokenVariable, ""},
           {kStateDirVariable, options_.keep_state ? folder_->state_folder(name) : ""},
           {kMetricsVariable, MetricsAddress()},
           // Unbuffered output is in the log when printed, and before a kill.
           {"PYTHONUNBUFFERED", "1"}},
      .is_command = true};
  Child* child = nullptr;
  return Spawn(std::move(options), options_.threads, &child);
}

absl::Status Cluster::Spawn(ProcessOptions options, uint32_t threads, Child** child) {
  if (Interrupted()) return Cancelled("interrupted");
  options.log_file = folder_->log_file(options.name);
  // By default BLAS and OpenMP start a thread for each core in every process.
  for (const char* const name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
    options.environment[name] = absl::StrCat(threads);
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Process> started, Process::Start(options));
  *child = &children_.emplace_back(
      Child{.options = std::move(options), .process = std::move(started), .budget = {}});
  return absl::OkStatus();
}

std::string Cluster::MetricsAddress() const {
  const std::string& listen = config_->metrics.listen;
  return listen.empty() ? "" : absl::StrCat(listen.substr(0, listen.rfind(':')), ":0");
}

Placement Cluster::PlaceOf(const std::string& process) const {
  return options_.place ? options_.place(process) : Placement();
}

absl::Status Cluster::AwaitReady(Child* child, absl::Time deadline, std::string* value) {
  Process* const process = child->process.get();
  while (true) {
    while (const std::optional<std::string> line = process->ReadLine()) {
      absl::string_view text = *line;
      if (!absl::ConsumePrefix(&text, "ready ")) {
        OnLine(child, *line);
        continue;
      }
      *value = std::string(text);
      if (std::string* listen = ArgumentOf(child->options.argv, "--listen")) *listen = *value;
      return absl::OkStatus();
    }
    if (Interrupted()) return Cancelled("interrupted");
    LONGWAVE_RETURN_IF_ERROR(FirstFailure());
    if (!process->Running()) return Aborted(NamedFailure(*process));
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      return Aborted(process->name(), " was not ready within ", absl::FormatDuration(kReadyTimeout),
                     "; see ", process->log_file());
    }
    Poll(std::min(left, process->output_fd() < 0 ? kReapInterval : absl::Seconds(1)));
  }
}

void Cluster::OnLine(Child* child, const std::string& line) {
  absl::string_view text = line;
  if (child->options.is_command) {
    std::ofstream(child->options.log_file, std::ios::app) << line << '\n';
  } else if (absl::ConsumePrefix(&text, "metrics ")) {
    OnMetricsAddress(child, std::string(text));
  }
}

void Cluster::ReadLines(Child* child) {
  const bool has_ended = !child->process->Running();
  std::optional<std::string> line;
  for (int i = 0; (i < kLinesMax || has_ended) && (line = child->process->ReadLine()); ++i)
    OnLine(child, *line);
}

void Cluster::ReadLog(Child* child) {
  if (!child->options.is_command || !child->metrics.empty() || MetricsAddress().empty()) return;
  std::ifstream file(child->options.log_file, std::ios::binary);
  file.seekg(child->process->log_begin());
  std::string head(kLogHeadBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  static constexpr absl::string_view kBefore = "metrics http://", kBehind = "/metrics\n";
  const size_t begin = head.find(kBefore.data());
  if (begin == std::string::npos) return;
  const size_t address = begin + kBefore.size(), end = head.find(kBehind.data(), address);
  if (end != std::string::npos) OnMetricsAddress(child, head.substr(address, end - address));
}

void Cluster::OnMetricsAddress(Child* child, std::string address) {
  if (child->metrics == address) return;
  child->metrics = std::move(address);
  if (child->options.is_command) {
    child->options.environment[kMetricsVariable] = child->metrics;
  } else if (std::string* metrics = ArgumentOf(child->options.argv, "--metrics")) {
    *metrics = child->metrics;
  }
  WriteTargets();
}

void Cluster::WriteTargets() const {
  std::vector<ScrapeTarget> targets;
  for (const Child& child : children_) {
    if (!child.metrics.empty()) targets.push_back({child.options.name, child.metrics});
  }
  // The run does not depend on the file.
  WriteFile(folder_->targets_file(), FormatTargets(folder_->name(), targets)).IgnoreError();
}

absl::Status Cluster::Supervise(absl::Duration timeout) {
  const absl::Time deadline = MonotonicNow() + timeout;
  while (true) {
    for (Child& child : children_) {
      ReadLines(&child);
      ReadLog(&child);
    }
    if (Interrupted()) return Cancelled("interrupted");
    LONGWAVE_RETURN_IF_ERROR(Revive());
    LONGWAVE_RETURN_IF_ERROR(FirstFailure());
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) return absl::OkStatus();
    const bool reaping = std::ranges::any_of(children_, [](Child& child) {
      return child.process->output_fd() < 0 && child.process->Running();
    });
    Poll(reaping ? std::min(left, kReapInterval) : left);
  }
}

bool Cluster::IsToBeRevived(Child& child) const {
  return options_.keep_state && started_ && !child.process->Running() &&
         child.process->killed_by().has_value();
}

absl::Status Cluster::Revive() {
  for (Child& child : children_) {
    if (!IsToBeRevived(child)) continue;
    const int signal = *child.process->killed_by();
    const std::string what = absl::StrCat(child.options.name, " was killed by signal ", signal,
                                          " (", strsignal(signal), ")");
    if (!child.budget.Spend(MonotonicNow())) {
      return Aborted(what, " and had been started again ", RestartBudget::kMax, " times within ",
                     absl::FormatDuration(RestartBudget::kWindow), " already; see ",
                     child.options.log_file);
    }
    LONGWAVE_ASSIGN_OR_RETURN(child.process, Process::Start(child.options));
    ++restarts_;
    notices_.push_back(what + " and is started again");
  }
  return absl::OkStatus();
}

std::vector<std::string> Cluster::TakeNotices() { return std::exchange(notices_, {}); }

absl::Status Cluster::FirstFailure() {
  for (Child& child : children_) {
    if (child.process->Running() || child.process->succeeded() || IsToBeRevived(child)) continue;
    return Aborted(NamedFailure(*child.process));
  }
  return absl::OkStatus();
}

bool Cluster::WorkersEnded() {
  return std::ranges::none_of(Processes(FirstWorker(), children_.size()), &Process::Running);
}

const Process* Cluster::FirstEnded() {
  for (Process* process : Processes(0, children_.size())) {
    if (!process->Running() && process->succeeded()) return process;
  }
  return nullptr;
}

std::vector<const Process*> Cluster::EndedWorkers() {
  std::vector<const Process*> ended;
  for (Process* worker : Processes(FirstWorker(), children_.size())) {
    if (!worker->Running()) ended.push_back(worker);
  }
  return ended;
}

bool Cluster::IsWorker(const Process& process) const {
  const std::vector<Process*> workers = Processes(FirstWorker(), children_.size());
  return std::ranges::find(workers, &process) != workers.end();
}

void Cluster::Poll(absl::Duration timeout) {
  std::vector<pollfd> fds = {{interrupt_fd_, POLLIN, 0}};
  // poll ignores a descriptor of -1.
  for (const Child& child : children_) fds.push_back({child.process->output_fd(), POLLIN, 0});
  // An error (EINTR) is as good as an early return: the caller polls again.
  (void)poll(fds.data(), fds.size(), PollTimeoutMs(timeout + absl::Milliseconds(1)));
}

bool Cluster::Interrupted() const {
  pollfd fd = {interrupt_fd_, POLLIN, 0};
  return interrupt_fd_ >= 0 && poll(&fd, 1, 0) > 0;
}

std::vector<Process*> Cluster::Processes(size_t begin, size_t end) const {
  std::vector<Process*> processes;
  for (size_t i = begin; i < std::min(end, children_.size()); ++i)
    processes.push_back(children_[i].process.get());
  return processes;
}

void Cluster::Park(absl::Time deadline) {
  // A coordinator has no unwritten state.
  End(0, 1, std::min(deadline, MonotonicNow() + kCoordinatorPatience));
  End(FirstWorker(), children_.size(), deadline);
  End(1, FirstWorker(), deadline);
  Forget();
}

void Cluster::Stop(absl::Time deadline, absl::Duration last_look_time,
                   const std::function<void()>& last_look) {
  if (children_.empty()) return;
  End(1, children_.size(),
      deadline - kCoordinatorTime - (last_look ? last_look_time : absl::ZeroDuration()));
  if (last_look) last_look();
  End(0, 1, deadline);
  Forget();
}

void Cluster::End(size_t begin, size_t end, absl::Time deadline) {
  for (Process* process : Processes(begin, end)) process->Signal(SIGTERM);
  AwaitEnd(begin, end, deadline);
  for (Process* process : Processes(begin, end)) process->Signal(SIGKILL);
}

void Cluster::Forget() {
  for (Child& child : children_) ReadLines(&child);
  children_.clear();  // waits for each
}

void Cluster::AwaitEnd(size_t begin, size_t end, absl::Time deadline) {
  while (true) {
    std::vector<pollfd> fds = {{interrupt_fd_, POLLIN, 0}};
    bool running = false, reaping = false;
    for (size_t i = begin; i < std::min(end, children_.size()); ++i) {
      ReadLines(&children_[i]);
      Process* const process = children_[i].process.get();
      if (!process->Running()) continue;
      running = true;
      reaping |= process->output_fd() < 0;
      fds.push_back({process->output_fd(), POLLIN, 0});  // poll ignores -1
    }
    const absl::Duration left = deadline - MonotonicNow();
    if (!running || left <= absl::ZeroDuration() || Interrupted()) return;
    (void)poll(fds.data(), fds.size(), PollTimeoutMs(reaping ? kReapInterval : left));
  }
}

}  // namespace longwave
