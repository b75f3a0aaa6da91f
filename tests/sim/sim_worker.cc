// Its life, and what it tells the coordinator.
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

constexpr char kFolder[] = "worker";
constexpr absl::Duration kBackoff = absl::Milliseconds(300);
constexpr absl::Duration kEarlyInterval = absl::Milliseconds(200);
constexpr absl::Duration kSetAsideAfter = absl::Seconds(1);
constexpr absl::Duration kNameTakenBackoff = absl::Seconds(1);

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
      rng_(env.settings->seed, 10000 + place) {
  if (env.settings->worker_has_disk[place]) disk_ = std::make_unique<SimFileSystem>(rng_.Next());
}

void SimWorker::OnStart() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kStart), {node(), generation()});
  env_.trace->Tell([&] { return absl::StrCat(name(), " starts"); });
  incarnation_ = rng_.Next() | 1;
  identity_ = incarnation_;
  if (disk_ != nullptr) {
    auto folder = WorkerFolder::Open(disk_.get(), kFolder);
    if (!folder.ok()) return Die(folder.status(), "opens its folder");
    folder_ = *std::move(folder);
    identity_ = folder_->identity();
  }
  theta_.assign(env_.layout->parameter_count(), start());
  auto pipeline = SyncPipeline::Create(env_.settings->MakeSyncOptions(), env_.layout, ops_, Exec{},
                                       {.theta = theta_.data(), .gradient = nullptr});
  if (!pipeline.ok()) return Die(pipeline.status(), "makes its pipeline");
  pipeline_ = *std::move(pipeline);
  account_ = env_.checker->NewAccount();
  merged_before_.assign(env_.layout->segments().size(), Buffer());
  signal_.assign(env_.layout->parameter_count(), 0);
  Register();
}

void SimWorker::OnCrash() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kCrash), {node()});
  env_.trace->Tell([&] { return absl::StrCat(name(), " ends"); });
  env_.probes->Hit(Probe::kWorkerCrashed);
  folder_.reset();
  core_.reset();
  ledger_.reset();
  pipeline_.reset();
  membership_ = {};
  addresses_.clear();
  ports_.clear();
  connections_.clear();
  unanswered_.clear();
  ready_round_ = kRoundNever;
  final_.reset();
  repair_.reset();
  sent_.clear();
  beating_ = urgent_ = stopped_ = validates_ = pumping_ = computing_ = final_answered_ = false;
  damaged_.clear();
  wakes_at_ = absl::InfiniteFuture();
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
  const auto names = disk_->List(kFolder);
  if (!names.ok() || !copy->CreateFolder(kFolder).ok()) return;
  for (const std::string& name : *names) {
    const auto bytes = ReadWhole(*disk_, JoinPath(kFolder, name), uint64_t{1} << 30);
    if (!bytes.ok() || bytes->size() == 0) continue;  // the lock
    const std::array<std::span<const std::byte>, 1> pieces = {bytes->bytes()};
    if (!Publish(*copy, kFolder, name, pieces).ok()) return;
  }
  backup_ = std::move(copy);
  backup_account_ = kept_account_;
}

bool SimWorker::ComeBackFromBackUp() {
  if (!up() || backup_ == nullptr) return false;
  Crash();
  disk_ = std::move(backup_);
  kept_account_ = backup_account_;
  is_from_backup_ = true;
  env_.trace->Tell([&] { return absl::StrCat(name(), " has its folder from an older time"); });
  return true;
}

// As a person does who reads why it ended.
void SimWorker::SetFolderAside() {
  if (is_from_backup_) env_.probes->Hit(Probe::kOldFolderRefused);
  is_from_backup_ = false;
  Crash();
  disk_ = std::make_unique<SimFileSystem>(rng_.Next());
  scheduler_->After(kSetAsideAfter, [this] { Start(); });
}

void SimWorker::CrashAndReturn() {
  Crash();
  scheduler_->After(absl::Seconds(1), [this] { Start(); });
}

void SimWorker::Damage(uint64_t element) {
  if (!up() || core_ == nullptr || stage() != Stage::kComputing) return;
  // The anchor is the pipeline's own; a cosmic ray asks nobody.
  const size_t at = element % theta_.size();
  // No two are hit alike: a majority that is wrong together nobody can tell from a right one.
  const_cast<float*>(pipeline_->anchor())[at] += 3 + static_cast<float>(place_);
  damaged_.insert(static_cast<uint32_t>(at / kSegmentElements));
  env_.probes->Hit(Probe::kReplicaDamaged);
  env_.trace->Tell([&] { return absl::StrCat("the replica of ", name(), " is damaged"); });
}

void SimWorker::KillConnection(uint32_t shard, bool one_way) {
  if (!up() || shard >= connections_.size()) return;
  connections_[shard].is_heard = false;
  connections_[shard].hears = one_way && connections_[shard].hears;
  env_.probes->Hit(Probe::kConnectionDied);
}

std::optional<uint32_t> SimWorker::rounds_of(uint32_t segment) const {
  if (!up() || pipeline_ == nullptr) return std::nullopt;
  // What it began with may be another start than the run's.
  const bool has_run = core_ != nullptr && !core_->IsFetchedAnew(segment);
  if (env_.settings->start_is_members && !has_run) return std::nullopt;
  return pipeline_->anchor_round(segment);
}

void SimWorker::Die(const absl::Status& status, const char* doing) {
  env_.checker->Violate(absl::StrCat(name(), " ", doing, ": ", std::string(status.message())));
}

std::string SimWorker::Describe() const {
  const char* const doing = !up()              ? "down"
                            : core_ == nullptr ? "joining"
                                               : WorkerCore::Name(stage());
  std::string text = absl::StrCat(name(), ": ", doing);
  if (!up()) return text;
  absl::StrAppend(&text, ", epoch ", membership_.epoch, ", first round ",
                  first_round() == kRoundNever ? "never" : absl::StrCat(first_round()));
  if (core_ != nullptr) {
    absl::StrAppend(&text, ", round ", core_->round(), ", waits for ", core_->awaited(),
                    " updates");
  }
  if (pipeline_ == nullptr) return text;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    absl::StrAppend(&text, s == 0 ? ", anchors before rounds " : " ", pipeline_->anchor_round(s));
  }
  return text;
}

// Control.

void SimWorker::Register() {
  RegisterWorker request{.name = name(),
                         .identity = identity_,
                         .manifest = env_.settings->MakeManifest(),
                         .layout_hash = env_.layout->hash(),
                         .incarnation = incarnation_,
                         .settings = "",
                         .process = folder_ == nullptr ? 0 : folder_->process(),
                         .start_hashes = StartHashes(*env_.layout, theta_, 1)};
  if (env_.settings->canary == Canary::kUnaccountedResidual) request.process &= 0xffffffffu;
  coordinator_->Call(*this, request, [this](const absl::StatusOr<CoordinatorEffect>& answer) {
    if (answer.ok()) {
      worker_ = std::get<WorkerRegistered>(*answer).worker;
      return Beat();
    }
    if (absl::IsUnavailable(answer.status())) return After(kBackoff, [this] { Register(); });
    // Another process without a folder had the name, and is not counted as lost yet.
    if (absl::IsAlreadyExists(answer.status()))
      return After(kNameTakenBackoff, [this] { Register(); });
    if (coordinator_->is_over()) return;
    if (is_from_backup_ && absl::IsAborted(answer.status())) return SetFolderAside();
    Die(answer.status(), "may not register");
  });
}

void SimWorker::BeatNow() {
  if (beating_) {
    urgent_ = true;
    return;
  }
  Beat();
}

void SimWorker::Beat() {
  ++beats_;
  beating_ = true;
  urgent_ = false;
  WorkerHeartbeat heartbeat;
  heartbeat.worker = worker_;
  heartbeat.incarnation = incarnation_;
  const bool is_done = core_ != nullptr && stage() == Stage::kDone;
  heartbeat.state.phase = is_done ? WorkerPhase::kDone : WorkerPhase::kTraining;
  heartbeat.state.round = core_ == nullptr ? 0 : core_->round();
  heartbeat.state.train_loss = 1;
  heartbeat.rounds = unanswered_;
  heartbeat.known_epoch = membership_.epoch;
  heartbeat.final = final_;
  heartbeat.ready_round = ready_round_;
  coordinator_->Call(
      *this, heartbeat,
      [this, heartbeat, finals = finals_](const absl::StatusOr<CoordinatorEffect>& answer) {
        beating_ = false;
        absl::Duration pause = kBackoff;
        if (answer.ok()) {
          TakeReply(heartbeat, std::get<WorkerHeartbeatReply>(*answer));
          final_answered_ |= final_.has_value() && finals == finals_;
          if (!up() || stopped_) return;
          const bool early = first_round() == kRoundNever;
          pause = early ? kEarlyInterval : env_.settings->heartbeat_interval;
          if (urgent_ || !unanswered_.empty()) pause = absl::ZeroDuration();
        } else if (!absl::IsUnavailable(answer.status())) {
          if (coordinator_->is_over()) return;
          // It had no place in the run yet, and lost it.
          if (membership_.epoch == 0) return Register();
          if (coordinator_->had_older_record()) return CrashAndReturn();
          return Die(answer.status(), "may not say how it is");
        }
        if (beating_) return;  // what the answer brought about was told at once
        After(pause, [this, beats = beats_] {
          if (beats == beats_ && !beating_) Beat();
        });
      });
}

void SimWorker::TakeReply(const WorkerHeartbeat& sent, const WorkerHeartbeatReply& reply) {
  unanswered_.erase(unanswered_.begin(),
                    unanswered_.begin() + static_cast<std::ptrdiff_t>(sent.rounds.size()));
  run_ = reply.run;
  validates_ = reply.validates;
  repair_ = reply.repair;
  if (reply.instruction == Instruction::kStop) {
    stopped_ = true;
    return;
  }
  if (reply.membership.has_value() && reply.membership->epoch >= membership_.epoch) {
    membership_ = *reply.membership;
    addresses_ = reply.shards;
    ConnectShards();
  }
  if (core_ == nullptr && Self() != nullptr && ports_.size() == shards_.size()) BeginWithShards();
  Pump();
}

const Member* SimWorker::Self() const {
  const auto self = std::ranges::find(membership_.members, worker_, &Member::worker);
  return self == membership_.members.end() ? nullptr : &*self;
}

uint32_t SimWorker::first_round() const {
  const Member* const self = Self();
  return self == nullptr ? kRoundNever : self->first_round;
}

void SimWorker::ConnectShards() {
  if (addresses_.size() != shards_.size()) return;
  std::vector<uint64_t> ports(shards_.size());
  for (const ShardAddress& address : addresses_)
    ports[address.shard] = PortOf(address.data_endpoint);
  connections_.resize(ports.size());
  for (uint32_t s = 0; s < ports.size() && ledger_ != nullptr; ++s) {
    if (ports[s] == ports_[s]) continue;
    Reconnect(s);
    ledger_->Reconnected(s, now());
  }
  ports_ = std::move(ports);
}

void SimWorker::Reconnect(uint32_t shard) {
  connections_[shard] = {.number = connections_[shard].number + 1};
}

}  // namespace longwave::sim
