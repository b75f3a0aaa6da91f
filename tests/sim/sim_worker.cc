// SimWorker's life and control plane.
#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/layout/segment_elements.h"
#include "common/wire/snapshot_payload.h"
#include "kernels/cpu/cpu_ops.h"

namespace longwave::sim {
namespace {

constexpr absl::Duration kSetAsideAfter = absl::Seconds(1);

uint64_t PortOf(const std::string& endpoint) {
  const char* const colon = endpoint.data() + endpoint.rfind(':');
  uint64_t port = 0;
  std::from_chars(colon + 1, endpoint.data() + endpoint.size(), port);
  return port;
}

}  // namespace

SimWorker::SimWorker(const Environment& env, const KernelOps* ops, SimCoordinator* coordinator,
                     std::vector<SimShard*> shards, uint32_t place)
    : Process(env.scheduler, env.settings->NodeOfWorker(place)),
      env_(env),
      ops_(ops),
      coordinator_(coordinator),
      shards_(std::move(shards)),
      place_(place),
      rng_(env.settings->seed, 10000 + place),
      disk_rng_(env.settings->seed, 30000 + place) {
  DrawDiskFaults();
  if (env.settings->worker_has_disk[place]) disk_ = std::make_unique<SimFileSystem>(rng_.Next());
}

void SimWorker::OnStart() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kStart), {node(), generation()});
  env_.trace->Print([&] { return absl::StrCat(name(), " starts"); });
  incarnation_ = rng_.Next() | 1;
  identity_ = incarnation_;
  if (disk_ != nullptr) {
    if (damages_journal_) DamageJournal();
    auto folder = WorkerFolder::Open(disk_.get(), kWorkerFolder);
    if (!folder.ok()) return Die(folder.status(), "opens its folder");
    folder_ = *std::move(folder);
    identity_ = folder_->identity();
  }
  theta_.assign(env_.layout->parameter_count(), start());
  const uint32_t ranks = env_.settings->has_nodes ? 1 + static_cast<uint32_t>(rng_.Below(4)) : 1;
  if (ranks > 1) env_.probes->Hit(Probe::kNode);
  for (uint32_t r = 0; r < ranks; ++r) {
    const SegmentRange owned = SegmentsOfRank(*env_.layout, r, ranks);
    auto pipeline =
        SyncPipeline::Create(env_.settings->MakeSyncOptions(), env_.layout, ops_, Exec{},
                             {.theta = theta_.data(), .gradient = nullptr}, owned);
    if (!pipeline.ok()) return Die(pipeline.status(), "makes its pipeline");
    ranks_.push_back({owned, *std::move(pipeline), nullptr, nullptr});
  }
  account_ = env_.checker->NewAccount();
  merged_before_.assign(env_.layout->segments().size(), Buffer());
  signal_.assign(env_.layout->parameter_count(), 0);
  Join();
}

void SimWorker::OnCrash() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kCrash), {node()});
  env_.trace->Print([&] { return absl::StrCat(name(), " ends"); });
  env_.probes->Hit(Probe::kWorkerCrashed);
  if (written_.has_value() && has_pushed_since_) env_.probes->Hit(Probe::kCheckpointHalfWritten);
  journal_.reset();
  notes_.clear();
  written_.reset();
  folder_.reset();
  ranks_.clear();
  hashes_.clear();
  writes_ = 0;
  seconds_computing_ = seconds_syncing_ = 0;
  syncs_since_.reset();
  session_.reset();
  endpoints_seen_ = 0;
  call_at_ = absl::InfiniteFuture();
  ports_.clear();
  connections_.clear();
  sent_.clear();
  stopped_ = pumping_ = computing_ = ends_ = false;
  kept_.clear();
  damaged_.clear();
  if (disk_ != nullptr) disk_->Restart(SimFileSystem::Stop::kProcess);
}

void SimWorker::Slow(double factor, absl::Time until) {
  slowness_ = factor;
  slow_until_ = until;
}

void SimWorker::LoseFolder() {
  Crash();
  if (disk_ != nullptr) disk_ = std::make_unique<SimFileSystem>(rng_.Next());
}

void SimWorker::BackUp() {
  if (!up() || disk_ == nullptr) return;
  auto copy = std::make_unique<SimFileSystem>(rng_.Next());
  const auto names = disk_->List(kWorkerFolder);
  if (!names.ok() || !copy->CreateFolder(kWorkerFolder).ok()) return;
  for (const std::string& name : *names) {
    const auto bytes = ReadWhole(*disk_, JoinPath(kWorkerFolder, name), uint64_t{1} << 30);
    if (!bytes.ok() || bytes->size() == 0) continue;  // the lock
    const std::array<std::span<const std::byte>, 1> pieces = {bytes->bytes()};
    if (!Publish(*copy, kWorkerFolder, name, pieces).ok()) return;
  }
  backup_ = std::move(copy);
  backup_account_ = kept_account_;
}

bool SimWorker::ComeBackFromBackUp() {
  if (!up() || backup_ == nullptr) return false;
  Crash();
  disk_ = std::move(backup_);
  kept_account_ = kept_before_ = backup_account_;
  is_from_backup_ = true;
  env_.trace->Print([&] { return absl::StrCat(name(), " has its folder from an older time"); });
  return true;
}

// Sets the folder aside, as an operator does after reading the error.
void SimWorker::SetFolderAside() {
  if (is_from_backup_) env_.probes->Hit(Probe::kOldFolderRefused);
  is_from_backup_ = false;
  Crash();
  disk_ = std::make_unique<SimFileSystem>(rng_.Next());
  scheduler_->After(kSetAsideAfter, [this] { Start(); });
}

void SimWorker::CrashAndReturn(absl::Duration away) {
  Crash();
  scheduler_->After(away, [this] { Start(); });
}

void SimWorker::ToldToEnd(absl::Duration away, bool leaves) {
  Deliver([this, away, leaves] {
    if (std::exchange(ends_, true)) return;
    env_.probes->Hit(Probe::kWorkerToldToEnd);
    away_ = away;
    leaves_ = leaves;
    if (!has_core()) return CrashAndReturn(away_);
    Pump();
  });
}

// The run does not wait for the worker if the coordinator hears it in time. Another call in
// progress prevents that.
void SimWorker::End() {
  if (leaves_) {
    session_->Leave();
    CallCoordinator();
  }
  CrashAndReturn(away_);
}

void SimWorker::Damage(uint64_t element) {
  if (!up() || !has_core() || stage() != Stage::kComputing) return;
  // The anchor is const for others, but not for a fault of memory.
  const size_t at = element % theta_.size();
  // Each worker's damage differs: equal damage in a majority could not be told from a correct
  // replica.
  const auto segment = static_cast<uint32_t>(at / kSegmentElements);
  const_cast<float*>(OwnerOf(segment).pipeline->anchor())[at] += 3 + static_cast<float>(place_);
  damaged_.insert(segment);
  env_.probes->Hit(Probe::kReplicaDamaged);
  env_.trace->Print([&] { return absl::StrCat("the replica of ", name(), " is damaged"); });
}

void SimWorker::KillConnection(uint32_t shard, bool one_way) {
  if (!up() || shard >= shards_.size() || connections_.empty()) return;
  Connection& connection = connections_[IndexOf(place_ % ranks_.size(), shard)];
  connection.is_heard = false;
  connection.hears = one_way && connection.hears;
  env_.probes->Hit(Probe::kConnectionDied);
}

std::optional<uint32_t> SimWorker::rounds_of(uint32_t segment) const {
  if (!up() || ranks_.empty()) return std::nullopt;
  // The worker may have begun with another start than the run's.
  const bool has_run = has_core() && !core().IsFetchedAnew(segment);
  if (env_.settings->start_is_members && !has_run) return std::nullopt;
  return anchor_round(segment);
}

void SimWorker::Die(const absl::Status& status, const char* doing) {
  env_.checker->Violate(absl::StrCat(name(), " ", doing, ": ", std::string(status.message())));
}

std::string SimWorker::Describe() const {
  const char* const doing = !up() ? "down" : !has_core() ? "joining" : WorkerCore::Name(stage());
  std::string text = absl::StrCat(name(), ": ", doing);
  if (!up()) return text;
  const uint32_t first_round = session_->directive().first_round;
  absl::StrAppend(&text, ", epoch ", session_->directive().epoch, ", first round ",
                  first_round == kRoundNever ? "never" : absl::StrCat(first_round));
  if (has_core()) {
    absl::StrAppend(&text, ", round ", core().round(), ", waits for ", core().awaited(),
                    " updates");
  }
  if (ranks_.empty()) return text;
  if (ranks_.size() > 1) absl::StrAppend(&text, ", ", ranks_.size(), " ranks");
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    absl::StrAppend(&text, s == 0 ? ", anchors before rounds " : " ", anchor_round(s));
  }
  return text;
}

// Control.

void SimWorker::Join() {
  RegisterWorker registration{.name = name(),
                              .identity = identity_,
                              .manifest = env_.settings->MakeManifest(),
                              .layout_hash = env_.layout->hash(),
                              .incarnation = incarnation_,
                              .settings = "",
                              .process = folder_ == nullptr ? 0 : folder_->process(),
                              .start_hashes = StartHashes(*env_.layout, theta_, 1)};
  if (env_.settings->canary == Canary::kUnaccountedResidual) registration.process &= 0xffffffffu;
  session_ = std::make_unique<SessionCore>(
      std::move(registration), env_.settings->heartbeat_interval, now(),
      env_.settings->interval.has_value() ? std::optional(env_.settings->MakeRoundPlan())
                                          : std::nullopt);
  CallCoordinator();
}

// Makes the due call, and schedules the next one.
void SimWorker::CallCoordinator() {
  if (stopped_) return;
  const bool is_done = has_core() && stage() == Stage::kSealing;
  WorkerState state;
  state.phase = is_done ? WorkerPhase::kDone : WorkerPhase::kTraining;
  state.round = !has_core() ? 0 : core().round();
  state.train_loss = 1;
  state.seconds_computing = seconds_computing_;
  state.seconds_syncing = seconds_syncing_;
  session_->SetState(state);
  const SessionCore::Call call = session_->TakeDue(now());
  if (const auto* const registration = std::get_if<RegisterWorker>(&call)) {
    coordinator_->Call(*this, *registration, [this](const absl::StatusOr<CoordinatorEffect>& got) {
      session_->OnRegistered(got.ok()
                                 ? absl::StatusOr<uint32_t>(std::get<WorkerRegistered>(*got).worker)
                                 : got.status(),
                             now());
      worker_ = session_->worker();
      TakeAnswer();
    });
  } else if (const auto* const heartbeat = std::get_if<WorkerHeartbeat>(&call)) {
    coordinator_->Call(*this, *heartbeat, [this](const absl::StatusOr<CoordinatorEffect>& got) {
      using Reply = absl::StatusOr<WorkerHeartbeatReply>;
      session_->OnHeartbeatReply(
          got.ok() ? Reply(std::get<WorkerHeartbeatReply>(*got)) : got.status(), now());
      TakeAnswer();
    });
  } else if (session_->due_at() < call_at_ || call_at_ <= now()) {
    if (session_->due_at() == absl::InfiniteFuture()) return;
    call_at_ = session_->due_at();
    After(call_at_ - now(), [this] { CallCoordinator(); });
  }
}

void SimWorker::TakeAnswer() {
  if (session_->is_refused()) return EndRefused(*session_->ended());
  if (session_->ended().has_value()) {
    stopped_ = true;
    return;
  }
  if (session_->KnowsRun(static_cast<uint32_t>(shards_.size()))) {
    if (std::exchange(endpoints_seen_, session_->endpoints_version()) !=
        session_->endpoints_version()) {
      ConnectShards();
    }
    if (!has_core()) BeginWithShards();
  }
  Pump();
  if (up()) CallCoordinator();
}

// Handles a refusal as a supervisor does.
void SimWorker::EndRefused(const absl::Status& refusal) {
  // Another process without a folder had the name, and its heartbeat timeout has not passed yet.
  if (!session_->is_registered() && absl::IsAlreadyExists(refusal)) return CrashAndReturn();
  if (coordinator_->is_over()) return;
  if (is_from_backup_ && absl::IsAborted(refusal)) return SetFolderAside();
  if (session_->is_registered() && coordinator_->had_older_record()) return CrashAndReturn();
  Die(refusal, "is refused by the coordinator");
}

void SimWorker::ConnectShards() {
  const auto endpoints = session_->Endpoints(static_cast<uint32_t>(shards_.size()));
  if (!endpoints.ok()) return Die(endpoints.status(), "reads the shards' addresses");
  std::vector<uint64_t> ports;
  for (const std::string& endpoint : *endpoints) ports.push_back(PortOf(endpoint));
  if (connections_.empty()) {
    for (size_t i = 0; i < ranks_.size() * ports.size(); ++i)
      connections_.push_back({.number = i / ports.size()});
  }
  for (uint32_t s = 0; s < ports.size() && has_core(); ++s) {
    if (ports[s] == ports_[s]) continue;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Reconnect(r, s);
      ranks_[r].ledger->Reconnected(s, now());
    }
  }
  ports_ = std::move(ports);
}

void SimWorker::Reconnect(size_t rank, uint32_t shard) {
  Connection& connection = connections_[IndexOf(rank, shard)];
  connection = {.number = connection.number + ranks_.size()};
}

}  // namespace longwave::sim
