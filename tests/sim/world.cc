#include "tests/sim/world.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/sim/checker.h"
#include "tests/sim/environment.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/sim_worker.h"

namespace longwave::sim {
namespace {

// Time that a run may take after the last fault, beside its rounds: lost members come back, and a
// shard repeats a snapshot request to another member.
constexpr absl::Duration kCalmMin = absl::Seconds(400);
constexpr absl::Duration kCalmOfARound = absl::Seconds(30);
// Limit of events in a simulated second; more are a loop.
constexpr uint64_t kEventsASecondMax = 4000;
// From a push in a worker's name until the worker has finished the round that the push was of.
constexpr absl::Duration kPoisonLasts = absl::Seconds(30);
// Time after the run's end until all processes were told.
constexpr absl::Duration kFarewell = absl::Seconds(30);

class World {
 public:
  World(const WorldSettings& settings, std::function<void(const std::string&)> listener)
      : settings_(settings),
        layout_(MakeLayout(settings)),
        network_(&scheduler_, settings.network, settings.seed ^ 0x6e6574, settings.node_count(),
                 &probes_),
        trace_(&scheduler_, std::move(listener)),
        checker_(settings_, &layout_, kStart) {
    const Environment env{.settings = &settings_,
                          .layout = &layout_,
                          .scheduler = &scheduler_,
                          .network = &network_,
                          .trace = &trace_,
                          .probes = &probes_,
                          .checker = &checker_,
                          .poison = &poison_};
    coordinator_ = std::make_unique<SimCoordinator>(env);
    coordinator_->on_write_crash = [this] { StartLater(coordinator_.get(), absl::Seconds(1)); };
    std::vector<SimShard*> shards;
    for (uint32_t s = 0; s < settings.shards; ++s) {
      shards_.push_back(std::make_unique<SimShard>(env, coordinator_.get(), s));
      shards.push_back(shards_.back().get());
      SimShard* const shard = shards.back();
      shard->on_write_crash = [this, shard] { StartLater(shard, absl::Seconds(1)); };
    }
    const KernelOps* const ops = &cpu::OpsOf(Isa::kGeneric);
    for (uint32_t w = 0; w < settings.workers; ++w) {
      workers_.push_back(std::make_unique<SimWorker>(env, ops, coordinator_.get(), shards, w));
    }
  }

  WorldResult Run() {
    Begin();
    absl::Time ended = absl::InfiniteFuture();
    const absl::Time latest =
        begin_ + settings_.calm_after + kCalmMin + kCalmOfARound * settings_.rounds + LatestStart();
    while (checker_.violation().empty() && !scheduler_.empty()) {
      if (coordinator_->is_over() && ended == absl::InfiniteFuture()) ended = scheduler_.now();
      if (ended != absl::InfiniteFuture() &&
          (coordinator_->EveryoneToldOfTheEnd() || scheduler_.now() > ended + kFarewell)) {
        break;
      }
      if (scheduler_.next() > latest) {
        if (IsExcused()) return Result();
        checker_.Violate(absl::StrCat("the run does not end: ", Describe()));
        break;
      }
      Step();
    }
    if (checker_.violation().empty()) CheckEnd();
    return Result();
  }

 private:
  static Layout MakeLayout(const WorldSettings& settings) {
    auto layout = Layout::Create(settings.MakeManifest(), settings.MakeLayoutOptions());
    LONGWAVE_CHECK(layout.ok());
    LONGWAVE_CHECK(layout->segments().size() == settings.segments);
    return *std::move(layout);
  }

  absl::Duration LatestStart() const {
    return *std::max_element(settings_.worker_starts_at.begin(), settings_.worker_starts_at.end());
  }

  void Begin() {
    begin_ = second_began_ = scheduler_.now();
    coordinator_->Start();
    for (auto& shard : shards_) shard->Start();
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      scheduler_.At(begin_ + settings_.worker_starts_at[w], [this, w] { workers_[w]->Start(); });
    }
    for (const Fault& fault : settings_.faults) {
      const absl::Time before = begin_ + fault.at - absl::Seconds(fault.amount);
      if (fault.kind == FaultKind::kOlderFolder) {
        scheduler_.At(std::max(begin_, before),
                      [this, &fault] { shards_[fault.target - 1]->CopyFolder(); });
      } else if (fault.kind == FaultKind::kOlderRecord) {
        scheduler_.At(std::max(begin_, before), [this] { coordinator_->CopyRecord(); });
      } else if (fault.kind == FaultKind::kOlderCluster) {
        scheduler_.At(std::max(begin_, before), [this] {
          coordinator_->CopyRecord();
          for (auto& shard : shards_) shard->CopyFolder();
        });
      }
      scheduler_.At(begin_ + fault.at, [this, &fault] { Happen(fault); });
    }
    scheduler_.At(begin_ + settings_.calm_after, [this] { Calm(); });
  }

  void Step() {
    scheduler_.Step();
    if (scheduler_.now() - second_began_ >= absl::Seconds(1)) {
      second_began_ = scheduler_.now();
      events_before_ = scheduler_.executed();
    }
    if (scheduler_.executed() - events_before_ > kEventsASecondMax * settings_.node_count()) {
      checker_.Violate(absl::StrCat("more than ", kEventsASecondMax,
                                    " events for each process in one second: ", Describe()));
    }
  }

  Process* ProcessAt(uint32_t node) {
    if (node == 0) return coordinator_.get();
    if (settings_.IsShard(node)) return shards_[node - 1].get();
    return workers_[node - 1 - settings_.shards].get();
  }

  // Used for processes that have started before, since one that never started has nothing to lose.
  void StartLater(Process* process, absl::Duration after) {
    scheduler_.After(after, [process] { process->Start(); });
  }

  void Happen(const Fault& fault) {
    if (coordinator_->is_over()) return;
    trace_.Add(static_cast<uint64_t>(Mark::kFault),
               {static_cast<uint64_t>(fault.kind), fault.target});
    trace_.Print([&] {
      return absl::StrCat("fault: ", std::string(Name(fault.kind)), ", ",
                          settings_.NodeName(fault.target));
    });
    if (HoldsWhatIsLost(fault.target) && EndsAHolder(fault)) return;
    Process* const process = ProcessAt(fault.target);
    SimShard* const shard =
        settings_.IsShard(fault.target) ? shards_[fault.target - 1].get() : nullptr;
    SimWorker* const worker = settings_.IsWorker(fault.target)
                                  ? workers_[fault.target - 1 - settings_.shards].get()
                                  : nullptr;
    DiskProcess* server = coordinator_.get();
    if (shard != nullptr) server = shard;
    SimFaults& disk_faults = server->disk_faults();
    const SimFileSystem& disk = server->disk();
    const absl::Time until = scheduler_.now() + fault.duration;
    switch (fault.kind) {
      case FaultKind::kCrash:
        if (!process->up()) return;
        process->Crash();
        return StartLater(process, fault.duration);
      case FaultKind::kPowerLoss:
        if (!process->up()) return;
        server->LosePower();
        return StartLater(process, fault.duration);
      case FaultKind::kWriteCrash:
        server->set_write_crash_is_power(fault.duration > absl::Seconds(2));
        disk_faults.crash_at = disk.operations() + static_cast<uint64_t>(fault.amount);
        return;
      case FaultKind::kLoseFolder:
        if (!process->up()) return;
        if (shard != nullptr) {
          if (shard->has_older_folder() || coordinator_->has_older_record()) return;
          auto holders = HoldersOf(fault.target - 1);
          if (!holders.has_value()) return;
          holders_[fault.target - 1] = *std::move(holders);
          shard->LoseFolder();
        }
        if (worker != nullptr) worker->LoseFolder();
        return StartLater(process, fault.duration);
      case FaultKind::kFreeze:
        probes_.Hit(Probe::kProcessFrozen);
        Disturb(fault.target, until);
        return process->Freeze(fault.duration);
      case FaultKind::kSlow:
        return worker->Slow(fault.amount, until);
      case FaultKind::kCut:
        Disturb(fault.target, until);
        return network_.Cut(fault.target, until);
      case FaultKind::kCutLink:
        if (HoldsWhatIsLost(fault.other)) return;
        Disturb(fault.target, until);
        Disturb(fault.other, until);
        return network_.CutLink(fault.target, fault.other, until);
      case FaultKind::kClog:
        Disturb(fault.target, until);
        return network_.Clog(fault.target, until);
      case FaultKind::kClockJump:
        probes_.Hit(Probe::kClockJumped);
        return process->JumpClock(absl::Seconds(fault.amount));
      case FaultKind::kDiskFull:
        // Leaves some bytes above the present content.
        disk_faults.capacity_bytes = disk.used_bytes() + 200;
        scheduler_.At(until, [server] { server->disk_faults().capacity_bytes.reset(); });
        return;
      case FaultKind::kFailedSync:
        disk_faults.failed_sync_at = disk.syncs() + static_cast<uint64_t>(fault.amount);
        return;
      case FaultKind::kFailedAppend:
        disk_faults.failed_append_at = disk.appends() + static_cast<uint64_t>(fault.amount);
        return;
      case FaultKind::kDamage:
        return worker->Damage(static_cast<uint64_t>(fault.amount));
      case FaultKind::kWeather:
        network_.set_weather(fault.weather);
        scheduler_.At(until, [this] { network_.set_weather({}); });
        return;
      case FaultKind::kOldFolder:
        worker->BackUp();
        scheduler_.At(until, [this, worker, node = fault.target] {
          if (coordinator_->is_over() || HoldsWhatIsLost(node)) return;
          if (worker->ComeBackFromBackUp()) StartLater(worker, absl::Seconds(1));
        });
        return;
      case FaultKind::kDeadLink:
        return worker->KillConnection(fault.other - 1, fault.amount > 0);
      case FaultKind::kPoison:
        poison_ = {fault.target, static_cast<uint32_t>(fault.amount), until};
        Disturb(fault.target, until + kPoisonLasts);
        return;
      case FaultKind::kOlderFolder:
        if (!shard->PutCopyBack()) return;
        scheduler_.At(until, [this, shard] { PutNewestBack(shard); });
        return StartLater(process, absl::Seconds(1));
      case FaultKind::kOlderRecord:
        if (!coordinator_->PutCopyBack()) return;
        scheduler_.At(until, [this] { PutNewestBack(); });
        return StartLater(process, absl::Seconds(1));
      case FaultKind::kLostTail: {
        if (!process->up() || shard->has_older_folder() || coordinator_->has_older_record() ||
            MembersMayBeSilent()) {
          return;
        }
        auto holders = HoldersOf(fault.target - 1);
        if (!holders.has_value() || !shard->LoseTail()) return;
        holders_[fault.target - 1] = *std::move(holders);
        return StartLater(process, fault.duration);
      }
      case FaultKind::kOlderCluster:
        if (!PutClusterBack()) return;
        scheduler_.At(until, [this] { PutNewestClusterBack(); });
        return;
      case FaultKind::kToldToEnd:
        return worker->ToldToEnd(fault.duration, fault.amount > 0);
      case FaultKind::kCount:
        break;
    }
    LONGWAVE_CHECK(false);
  }

  void PutNewestBack(SimShard* shard) {
    if (!shard->has_older_folder()) return;
    shard->PutNewestBack();
    StartLater(shard, absl::Seconds(1));
  }
  void PutNewestBack() {
    // A run that ended meanwhile needs no record any more.
    if (!coordinator_->has_older_record() || coordinator_->is_over()) return;
    coordinator_->PutNewestBack();
    StartLater(coordinator_.get(), absl::Seconds(1));
  }

  // The coordinator and all shards come back from folders that lack rounds which members have.
  bool PutClusterBack() {
    std::map<uint32_t, std::vector<uint32_t>> holders;
    for (uint32_t s = 0; s < shards_.size(); ++s) {
      auto held = HoldersOf(s);
      if (!held.has_value() || !shards_[s]->IsCopyFarBehind()) return false;
      holders[s] = *std::move(held);
    }
    if (!coordinator_->has_copy() || !coordinator_->PutCopyBack(/*is_cluster=*/true)) return false;
    probes_.Hit(Probe::kClusterGotOlderFolders);
    holders_ = std::move(holders);
    for (auto& shard : shards_) shard->PutBack();
    StartLater(coordinator_.get(), absl::Seconds(1));
    for (auto& shard : shards_) StartLater(shard.get(), absl::Seconds(1));
    return true;
  }
  void PutNewestClusterBack() {
    const bool is_noticed =
        !coordinator_->trouble().empty() || std::ranges::any_of(shards_, [](const auto& shard) {
          return shard->durable() == nullptr || !shard->durable()->trouble().empty();
        });
    if (shards_.front()->has_older_folder() && !is_noticed && !coordinator_->is_over())
      checker_.Violate("nobody has noticed that all folders are from an older time");
    for (auto& shard : shards_) PutNewestBack(shard.get());
    PutNewestBack();
  }

  // Chooses the workers that keep the content of a shard's folder, which is lost only with the last
  // of them. For each of its segments that is one worker with all rounds that any worker has, and
  // which the coordinator counts as a member until the range is restored. A coordinator that is cut
  // off counts all workers as lost. Nothing: some segment has no such worker, or the last round was
  // sent, after which workers finish and send no replica.
  std::optional<std::vector<uint32_t>> HoldersOf(uint32_t shard) const {
    if (IsDisturbed(0)) return std::nullopt;
    std::vector<uint32_t> holders;
    for (uint32_t s = 0; s < settings_.segments; ++s) {
      if (layout_.segments()[s].shard != shard) continue;
      // A replica that lacks a finished round is not taken.
      uint32_t most = coordinator_->rounds_finished();
      for (const auto& worker : workers_) {
        // A joining worker may keep updates received ahead.
        const uint32_t joins = worker->catches_up() ? checker_.rounds_merged(s) : 0;
        most = std::max({most, joins, worker->rounds_of(s).value_or(0)});
      }
      const auto holder = std::ranges::find_if(workers_, [&](const auto& worker) {
        return worker->trains() && worker->rounds_of(s) == most && !worker->frozen() &&
               !IsDisturbed(worker->node());
      });
      const bool may_finish = checker_.rounds_merged(s) >= checker_.rounds();
      if (holder == workers_.end() || may_finish) return std::nullopt;
      holders.push_back((*holder)->node());
    }
    return holders;
  }
  // A shard does not wait without limit for a silent member that may have later rounds than its log
  // (ReplicaRestores::Check). Bad links and slow machines can keep a member silent for longer.
  bool MembersMayBeSilent() const {
    return std::ranges::any_of(settings_.faults, [&](const Fault& fault) {
      const absl::Time begin = begin_ + fault.at;
      return (fault.kind == FaultKind::kWeather || fault.kind == FaultKind::kSlow) &&
             begin < scheduler_.now() + absl::Minutes(2) &&
             begin + fault.duration > scheduler_.now();
    });
  }
  bool HoldsWhatIsLost(uint32_t node) {
    std::erase_if(holders_, [&](const auto& lost) {
      const DurableShard* const shard = shards_[lost.first]->durable();
      return shard != nullptr && shard->trouble().empty() && shard->restoring_count() == 0 &&
             !shards_[lost.first]->lacks_tail() && !shards_[lost.first]->has_older_folder();
    });
    return std::ranges::any_of(holders_, [&](const auto& lost) {
      return node == 0 || std::ranges::count(lost.second, node) > 0 || IsAhead(node, lost.first);
    });
  }
  // Whether the worker has a round of the shard that no holder has: its update was on its way as
  // the folder was lost.
  bool IsAhead(uint32_t node, uint32_t shard) const {
    const auto rounds_of = [&](uint32_t at, uint32_t segment) {
      return workers_[at - 1 - settings_.shards]->rounds_of(segment).value_or(0);
    };
    if (!settings_.IsWorker(node)) return false;
    for (uint32_t s = 0; s < settings_.segments; ++s) {
      if (layout_.segments()[s].shard != shard) continue;
      if (std::ranges::all_of(holders_.at(shard), [&](uint32_t holder) {
            return rounds_of(holder, s) < rounds_of(node, s);
          }))
        return true;
    }
    return false;
  }
  // Whether the fault may cost a member its place or its replica. A coordinator that ends or is
  // stopped costs its members nothing.
  static bool EndsAHolder(const Fault& fault) {
    if (fault.kind == FaultKind::kCut || fault.kind == FaultKind::kClog) return true;
    return fault.target != 0 &&
           (fault.kind == FaultKind::kCrash || fault.kind == FaultKind::kLoseFolder ||
            fault.kind == FaultKind::kToldToEnd || fault.kind == FaultKind::kFreeze ||
            // A worker ends that finds another push in its name.
            fault.kind == FaultKind::kPoison || fault.kind == FaultKind::kCutLink);
  }
  void Disturb(uint32_t node, absl::Time until) {
    disturbed_until_[node] = std::max(disturbed_until_[node], until);
  }
  bool IsDisturbed(uint32_t node) const {
    const auto disturbed = disturbed_until_.find(node);
    return disturbed != disturbed_until_.end() && disturbed->second >= scheduler_.now();
  }

  // Ends all faults.
  void Calm() {
    network_.Heal();
    for (auto& shard : shards_) {
      PutNewestBack(shard.get());
      shard->disk_faults() = {};
      if (!shard->up()) shard->Start();
    }
    PutNewestBack();
    coordinator_->disk_faults() = {};
    if (!coordinator_->up()) coordinator_->Start();
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      if (!workers_[w]->up() && workers_[w]->generation() > 0) workers_[w]->Start();
    }
  }

  // A coordinator that goes on from an older record for a while may leave neither record usable.
  // The run then lacks only its end.
  bool IsExcused() const {
    return coordinator_->had_older_record() && coordinator_->phase() != RunPhase::kFinished;
  }

  void CheckEnd() {
    if (IsExcused()) return;
    if (!coordinator_->is_over()) {
      return checker_.Violate(absl::StrCat("nothing happens any more: ", Describe()));
    }
    if (coordinator_->phase() != RunPhase::kFinished) {
      return checker_.Violate(absl::StrCat("the run is ", std::string(Name(coordinator_->phase())),
                                           ": ", coordinator_->reason()));
    }
    for (uint32_t s = 0; s < settings_.segments; ++s) {
      if (checker_.rounds_merged(s) < checker_.rounds()) {
        return checker_.Violate(absl::StrCat("the run is finished, and segment ", s, " has ",
                                             checker_.rounds_merged(s), " rounds of ",
                                             checker_.rounds()));
      }
    }
    for (const auto& worker : workers_) worker->CheckEnd();
    for (const auto& shard : shards_) shard->CheckEnd();
  }

  std::string Describe() const {
    std::string text =
        absl::StrCat("the coordinator has finished ", coordinator_->rounds_finished(), " rounds; ",
                     coordinator_->trouble());
    for (const auto& shard : shards_) absl::StrAppend(&text, "\n  ", shard->Describe());
    for (size_t w = 0; w < std::min<size_t>(workers_.size(), 8); ++w)
      absl::StrAppend(&text, "\n  ", workers_[w]->Describe());
    return text;
  }

  WorldResult Result() const {
    return {.violation = checker_.violation(),
            .trace_hash = trace_.hash(),
            .events = scheduler_.executed(),
            .messages = network_.sent(),
            .seconds = absl::ToDoubleSeconds(scheduler_.now() - begin_),
            .pushes_merged = checker_.pushes_merged(),
            .unknown_fates = checker_.unknown_fates(),
            .pushes_lost = checker_.pushes_lost(),
            .rounds = checker_.rounds_merged(0),
            .probes = probes_};
  }

  const WorldSettings settings_;
  const Layout layout_;
  Probes probes_;
  Scheduler scheduler_;
  Network network_;
  Trace trace_;
  Checker checker_;
  Poison poison_;
  std::unique_ptr<SimCoordinator> coordinator_;
  std::vector<std::unique_ptr<SimShard>> shards_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  // Holders of a shard's lost content, by shard.
  std::map<uint32_t, std::vector<uint32_t>> holders_;
  std::map<uint32_t, absl::Time> disturbed_until_;  // by node: it may be unreachable until then
  absl::Time begin_;
  absl::Time second_began_;
  uint64_t events_before_ = 0;
};

}  // namespace

WorldResult RunWorld(const WorldSettings& settings,
                     const std::function<void(const std::string&)>& listener) {
  return World(settings, listener).Run();
}

}  // namespace longwave::sim
