#include "tests/bench/link/run.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/cluster.h"
#include "cli/run_folder.h"
#include "cli/status_feed.h"
#include "common/base/clock.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"

namespace longwave {
namespace {

constexpr absl::Duration kLookInterval = absl::Milliseconds(250);
constexpr absl::Duration kSilenceMax = absl::Seconds(60);
constexpr absl::Duration kAftermathMax = absl::Seconds(30);
constexpr absl::Duration kStopTimeout = absl::Seconds(5);

std::string WorkerName(size_t i) { return absl::StrCat("worker-", i); }
std::string ShardName(size_t i) { return absl::StrCat("shard-", i); }

class LinkRunner {
 public:
  LinkRunner(const LinkRunOptions& options, const RunFolder* folder)
      : options_(options),
        network_(*options.network),
        cluster_({.binaries = options.binaries,
                  .worker_binaries = options.binaries,
                  .listen = absl::StrCat(
                      network_.Address(LinkNetwork::kCoordinator, LinkNetwork::kControl), ":0"),
                  .threads = options.config.train.threads,
                  .keep_state = options.keep_state,
                  .place = [this](const std::string& process) { return Place(process); }},
                 &options.config, folder, options.interrupt_fd) {}

  absl::StatusOr<LinkRun> Run() {
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<LinkWorker> before, ReadInterfaces());
    LONGWAVE_RETURN_IF_ERROR(cluster_.Start());
    LONGWAVE_RETURN_IF_ERROR(Watch());
    LONGWAVE_ASSIGN_OR_RETURN(std::vector<LinkWorker> workers, ReadInterfaces());
    cluster_.Stop(MonotonicNow() + kStopTimeout, StatusFeed::kCallTimeout, nullptr);
    for (size_t i = 0; i < workers.size(); ++i) {
      workers[i].data = workers[i].data - before[i].data;
      workers[i].control = workers[i].control - before[i].control;
      workers[i].segments_sent_again -= before[i].segments_sent_again;
      ReadState(&workers[i]);
    }
    return LinkRun{.preset = options_.config.run.preset,
                   .mbit = options_.mbit,
                   .status = feed_.status(),
                   .workers = std::move(workers)};
  }

 private:
  Placement Place(const std::string& process) const {
    if (process == LinkNetwork::kCoordinator) return {};
    Placement place{.prefix = network_.Prefix(process)};
    if (absl::string_view(process).substr(0, 5) != "shard") return place;
    place.arguments = {"--set", absl::StrCat("cluster.shard_host=",
                                             network_.Address(process, LinkNetwork::kControl))};
    place.data_endpoint =
        absl::StrCat("tcp://", network_.Address(process, LinkNetwork::kData), ":0");
    return place;
  }

  absl::StatusOr<std::vector<LinkWorker>> ReadInterfaces() const {
    std::vector<LinkWorker> workers(options_.config.run.workers);
    for (size_t i = 0; i < workers.size(); ++i) {
      workers[i].name = WorkerName(i);
      LONGWAVE_ASSIGN_OR_RETURN(workers[i].data,
                                network_.Bytes(workers[i].name, LinkNetwork::kData));
      LONGWAVE_ASSIGN_OR_RETURN(workers[i].control,
                                network_.Bytes(workers[i].name, LinkNetwork::kControl));
      LONGWAVE_ASSIGN_OR_RETURN(workers[i].segments_sent_again,
                                network_.SegmentsSentAgain(workers[i].name));
    }
    return workers;
  }

  // Until the run is over, or has been ended early, as stop_when wanted.
  absl::Status Watch() {
    feed_.Connect(cluster_.coordinator_address());
    std::optional<absl::Time> over_since;
    while (true) {
      const absl::Status children = cluster_.Supervise(kLookInterval);
      if (absl::IsCancelled(children)) return children;
      feed_.Refresh();
      const RunStatus& status = feed_.status();
      if (status.phase == RunPhase::kFailed) return absl::AbortedError(status.failure);
      LONGWAVE_RETURN_IF_ERROR(children);
      if (status.phase == RunPhase::kFinished && cluster_.WorkersEnded()) {
        return absl::OkStatus();
      }
      if (!feed_.over() && options_.stop_when && options_.stop_when(status)) {
        feed_.StopRun("the bench has seen what it wanted");
        return absl::OkStatus();
      }
      if (feed_.over()) over_since = over_since.value_or(MonotonicNow());
      if (over_since.has_value() && MonotonicNow() - *over_since > kAftermathMax) {
        return absl::AbortedError("a worker was still there long after the run");
      }
      if (feed_.silence() > kSilenceMax) {
        return absl::AbortedError(absl::StrCat("the coordinator has not answered for ",
                                               absl::FormatDuration(kSilenceMax)));
      }
    }
  }

  void ReadState(LinkWorker* worker) const {
    for (const MemberStatus& member : feed_.status().members) {
      if (member.member.name != worker->name) continue;
      worker->seconds_computing = member.state.seconds_computing;
      worker->seconds_syncing = member.state.seconds_syncing;
      worker->sockets = member.state.bytes;
    }
  }

  const LinkRunOptions& options_;
  const LinkNetwork& network_;
  StatusFeed feed_;
  Cluster cluster_;  // last: ends first
};

}  // namespace

double LinkRun::SecondsUnvalidated() const {
  double slowest = 0;
  for (const LinkWorker& worker : workers) {
    slowest = std::max(slowest, worker.seconds_computing + worker.seconds_syncing);
  }
  return workers.empty() ? seconds() : std::min(seconds(), slowest);
}

absl::StatusOr<LinkRun> RunOverLinks(const LinkRunOptions& options) {
  LinkRunOptions own = options;
  own.config.run.name = options.name;
  LONGWAVE_ASSIGN_OR_RETURN(const RunFolder folder,
                            RunFolder::Create(own.runs_dir, own.config, absl::Now()));
  LONGWAVE_RETURN_IF_ERROR(WriteFile(folder.config_file(), FormatConfig(own.config)));
  absl::StatusOr<LinkRun> run = LinkRunner(own, &folder).Run();
  if (run.ok()) {
    std::error_code ignored;  // a model that stays is no harm
    std::filesystem::remove(folder.model_file(), ignored);
    return run;
  }
  if (absl::IsCancelled(run.status())) return run.status();
  return absl::AbortedError(
      absl::StrCat(options.name, ": ", run.status().message(), "; logs are in ", folder.path()));
}

std::vector<std::string> LinkNodes(const RunConfig& config) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < config.run.workers; ++i) names.push_back(WorkerName(i));
  for (uint32_t i = 0; i < config.run.shards; ++i) names.push_back(ShardName(i));
  return names;
}

}  // namespace longwave
