#include "tests/bench/shard/cluster.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/new_file.h"
#include "common/base/random_word.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "tests/bench/shard/machine.h"

namespace longwave {
namespace {

constexpr absl::Duration kReadyTimeout = absl::Seconds(60);
constexpr absl::Duration kStopTimeout = absl::Seconds(20);
// Interval of checks for a process's output, which wakes the wait, as does the process's end.
constexpr int kLookMs = 100;
constexpr absl::Duration kEndLook = absl::Milliseconds(20);
constexpr uint64_t kIncarnation = 1;  // of synthetic workers, which never come again

std::string NameOf(uint32_t worker) { return absl::StrCat("synthetic-", worker); }

void WaitForOutput(const Process& process) {
  pollfd fd = {process.output_fd(), POLLIN, 0};
  (void)poll(&fd, process.output_fd() >= 0 ? 1 : 0, kLookMs);
}

absl::Status EndedEarly(const Process& process) {
  return absl::AbortedError(absl::StrCat(process.name(), ": ", process.FailureSentence()));
}

bool AwaitEnd(Process& process, absl::Time deadline) {
  while (process.Running()) {
    if (MonotonicNow() > deadline) return false;
    (void)poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kEndLook)));
  }
  return true;
}

// Starts a program and waits for its line "ready <value>"; its log is <folder>/<name>.log. Aborted:
// the program ended before, with its own sentence. DeadlineExceeded: no line in time.
absl::StatusOr<std::unique_ptr<Process>> StartAndAwaitReady(const std::string& name,
                                                            std::vector<std::string> argv,
                                                            const std::string& folder,
                                                            std::string* ready_value) {
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Process> process,
                            Process::Start({.name = name,
                                            .argv = std::move(argv),
                                            .log_file = absl::StrCat(folder, "/", name, ".log")}));
  const absl::Time deadline = MonotonicNow() + kReadyTimeout;
  for (;;) {
    const bool running = process->Running();
    while (const std::optional<std::string> line = process->ReadLine()) {
      absl::string_view text = *line;
      if (!absl::ConsumePrefix(&text, "ready ")) continue;
      *ready_value = std::string(text);
      return process;
    }
    if (!running) return EndedEarly(*process);
    if (MonotonicNow() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(name, " was not ready within ",
                                                      absl::FormatDuration(kReadyTimeout), "; see ",
                                                      process->log_file()));
    }
    WaitForOutput(*process);
  }
}

}  // namespace

ShardCounts ShardCounts::Since(const ShardCounts& before) const {
  return {.pushes_accepted = pushes_accepted - before.pushes_accepted,
          .segments_closed = segments_closed - before.segments_closed,
          .bytes_received = bytes_received - before.bytes_received,
          .bytes_sent = bytes_sent - before.bytes_sent,
          .payload_received = payload_received - before.payload_received,
          .payload_sent = payload_sent - before.payload_sent};
}

absl::StatusOr<std::unique_ptr<BenchCluster>> BenchCluster::Start(
    const BenchClusterOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(
      Layout layout,
      Layout::Create(options.manifest, LayoutOptionsFor(options.config, options.manifest)));
  std::unique_ptr<BenchCluster> cluster(new BenchCluster(options, std::move(layout)));
  LONGWAVE_RETURN_IF_ERROR(cluster->StartProcesses());
  LONGWAVE_RETURN_IF_ERROR(cluster->RegisterWorkers());
  LONGWAVE_RETURN_IF_ERROR(cluster->AwaitBegin());
  for (const ShardAddress& address : cluster->addresses_) {
    cluster->shard_clients_.push_back(ShardClient::Connect(address.control_endpoint));
  }
  cluster->beating_ = std::thread([beating = cluster.get()] { beating->Beat(); });
  return cluster;
}

BenchCluster::~BenchCluster() { StopBeating(); }

void BenchCluster::StopBeating() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (beating_.joinable()) beating_.join();
}

absl::Status BenchCluster::StartProcesses() {
  const std::string config_file = options_.folder + "/config.yaml";
  LONGWAVE_RETURN_IF_ERROR(WriteFile(config_file, FormatConfig(options_.config)));
  std::string address;
  LONGWAVE_ASSIGN_OR_RETURN(coordinator_,
                            StartAndAwaitReady("coordinator",
                                               {options_.server, "--role=coordinator", "--config",
                                                config_file, "--listen", "127.0.0.1:0"},
                                               options_.folder, &address));
  client_ = CoordinatorClient::Connect(address);
  for (uint32_t shard = 0; shard < options_.config.run.shards; ++shard) {
    std::vector<int> processors;
    if (const auto& all = options_.shard_processors; !all.empty()) {
      processors.push_back(all[shard % all.size()]);
    }
    const ScopedProcessors bound(processors);
    const std::string name = absl::StrCat("shard-", shard);
    std::vector<std::string> command = {
        options_.server, "--role=shard",  "--shard", absl::StrCat(shard), "--config",
        config_file,     "--coordinator", address,   "--listen",          "tcp://127.0.0.1:0"};
    if (options_.keep_state) {
      command.insert(command.end(),
                     {"--state-dir", absl::StrCat(options_.folder, "/state/", name)});
    }
    std::string endpoint;
    LONGWAVE_ASSIGN_OR_RETURN(
        std::unique_ptr<Process> process,
        StartAndAwaitReady(name, std::move(command), options_.folder, &endpoint));
    shards_.push_back(std::move(process));
  }
  return absl::OkStatus();
}

absl::Status BenchCluster::RegisterWorkers() {
  const std::string settings = BindingSettings(options_.config);
  const std::vector<uint64_t> no_weights(layout_.segments().size());
  for (uint32_t worker = 0; worker < options_.config.run.workers; ++worker) {
    LONGWAVE_ASSIGN_OR_RETURN(const uint32_t index,
                              client_->Register(RegisterWorker{.name = NameOf(worker),
                                                               .manifest = options_.manifest,
                                                               .layout_hash = layout_.hash(),
                                                               .incarnation = kIncarnation,
                                                               .settings = settings,
                                                               .start_hashes = no_weights}));
    workers_.push_back(index);
  }
  return absl::OkStatus();
}

absl::Status BenchCluster::AwaitBegin() {
  const absl::Time deadline = MonotonicNow() + kReadyTimeout;
  for (const uint32_t worker : workers_) {
    for (;;) {
      LONGWAVE_ASSIGN_OR_RETURN(
          const WorkerHeartbeatReply reply,
          client_->Heartbeat(WorkerHeartbeat{.worker = worker, .incarnation = kIncarnation}));
      if (reply.instruction == Instruction::kStop) return absl::AbortedError(reply.reason);
      if (reply.membership.has_value() && reply.shards.size() == options_.config.run.shards) {
        run_ = reply.run;
        epoch_ = reply.membership->epoch;
        addresses_ = reply.shards;
        break;
      }
      LONGWAVE_RETURN_IF_ERROR(Health());
      if (MonotonicNow() > deadline) {
        return absl::DeadlineExceededError(absl::StrCat("the run did not begin within ",
                                                        absl::FormatDuration(kReadyTimeout),
                                                        "; see ", options_.folder));
      }
      (void)poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kEndLook)));
    }
  }
  std::sort(addresses_.begin(), addresses_.end(),
            [](const ShardAddress& a, const ShardAddress& b) { return a.shard < b.shard; });
  return absl::OkStatus();
}

void BenchCluster::Beat() {
  const auto interval =
      absl::ToChronoMilliseconds(absl::Seconds(options_.config.cluster.heartbeat_interval_s));
  std::unique_lock lock(mutex_);
  while (!stopping_ && ended_.empty()) {
    for (size_t i = 0; i < workers_.size() && !stopping_; ++i) {
      lock.unlock();
      const absl::StatusOr<WorkerHeartbeatReply> reply =
          client_->Heartbeat(WorkerHeartbeat{.worker = workers_[i],
                                             .incarnation = kIncarnation,
                                             .state = {.phase = WorkerPhase::kSyncing},
                                             .known_epoch = epoch_});
      lock.lock();
      if (reply.ok() && reply->instruction == Instruction::kStop) ended_ = reply->reason;
    }
    wake_.wait_for(lock, interval, [this] { return stopping_; });
  }
}

std::vector<std::string> BenchCluster::data_endpoints() const {
  std::vector<std::string> endpoints;
  for (const ShardAddress& address : addresses_) endpoints.push_back(address.data_endpoint);
  return endpoints;
}

absl::StatusOr<ShardCounts> BenchCluster::Counts() const {
  ShardCounts counts;
  for (const auto& client : shard_clients_) {
    LONGWAVE_ASSIGN_OR_RETURN(const ShardReport report, client->GetStatus());
    counts.pushes_accepted += report.state.pushes_accepted;
    counts.segments_closed += report.state.segments_closed;
    counts.bytes_received += report.traffic.received.Total().bytes;
    counts.bytes_sent += report.traffic.sent.Total().bytes;
    counts.payload_received += report.traffic.received[FrameKind::kPush].payload_bytes;
    counts.payload_sent += report.traffic.sent[FrameKind::kMerged].payload_bytes;
  }
  return counts;
}

absl::Status BenchCluster::Health() {
  for (const auto& shard : shards_) {
    if (!shard->Running()) return EndedEarly(*shard);
  }
  if (!coordinator_->Running()) return EndedEarly(*coordinator_);
  const std::lock_guard lock(mutex_);
  return ended_.empty() ? absl::OkStatus() : absl::AbortedError(ended_);
}

absl::Status BenchCluster::Stop() {
  LONGWAVE_RETURN_IF_ERROR(Health());
  StopBeating();
  const absl::Time deadline = MonotonicNow() + kStopTimeout;
  std::vector<Process*> processes;
  for (const auto& shard : shards_) processes.push_back(shard.get());
  processes.push_back(coordinator_.get());
  // Shards first: a coordinator that loses one would call the run failed.
  for (Process* process : processes) {
    process->Signal(SIGTERM);
    if (!AwaitEnd(*process, deadline)) {
      return absl::AbortedError(absl::StrCat(process->name(), " was still there ",
                                             absl::FormatDuration(kStopTimeout),
                                             " after it was told to end"));
    }
    if (!process->succeeded()) return EndedEarly(*process);
  }
  return absl::OkStatus();
}

}  // namespace longwave
