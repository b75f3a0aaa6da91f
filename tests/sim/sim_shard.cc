// SimShard's life, folder and control plane.
#include "tests/sim/sim_shard.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/control/lost_rounds.h"
#include "server/shard_state/shard_core.h"

namespace longwave::sim {
namespace {

constexpr char kShardFolder[] = "shard";

}  // namespace

SimShard::SimShard(const Environment& env, SimCoordinator* coordinator, uint32_t shard)
    : DiskProcess(env, env.settings->NodeOfShard(shard), env.settings->canary,
                  Probe::kShardLostPower, Probe::kShardCrashedInWrite),
      coordinator_(coordinator),
      index_(shard),
      rng_(env.settings->seed, 100 + shard) {
  UseNewDisk(rng_.Next());
  keeps_tail_ = std::ranges::any_of(env.settings->faults, [this](const Fault& fault) {
    return fault.kind == FaultKind::kLostTail && fault.target == node();
  });
}

SimShard::~SimShard() = default;

const DurableShard* SimShard::durable() const {
  return core_ == nullptr ? nullptr : &core_->shard();
}

void SimShard::OnStart() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kStart), {node(), generation()});
  env_.trace->Print([&] { return absl::StrCat("shard ", index_, " starts"); });
  incarnation_ = rng_.Next() | 1;
  if (port_ == 0 || env_.settings->shards_move) port_ = generation();
  if (env_.settings->shards_have_disks) {
    const auto owner = OwnerOfFolder(*lying_, kShardFolder);
    if (EndIfStopped()) return;
    if (!owner.ok()) return StartAgain();
    folder_run_ = owner->run;
    folder_ = owner->folder != 0 ? owner->folder : rng_.Next() | 1;
  }
  schedule_.emplace(env_.settings->heartbeat_interval, now());
  CallCoordinator();
}

void SimShard::OnCrash() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kCrash), {node()});
  env_.trace->Print([&] {
    return absl::StrCat("shard ", index_, " ends",
                        next_stop_ == SimFileSystem::Stop::kPower ? " with its machine" : "");
  });
  env_.probes->Hit(Probe::kShardCrashed);
  registration_.reset();
  known_epoch_ = 0;
  knows_manifest_ = false;
  core_.reset();
  connections_.clear();
  newest_connections_.clear();
  requests_.clear();
  pushes_.clear();
  poisons_.clear();
  commit_is_due_ = had_trouble_ = was_restoring_ = false;
  closed_by_quorum_ = log_bytes_ = 0;
  StopDisk();
  if (env_.settings->canary == Canary::kForgottenFolder) UseNewDisk(rng_.Next());
}

std::optional<SimShard::FolderCopy> SimShard::NewCopy() {
  if (!up() || core_ == nullptr || core_->shard().store() == nullptr || has_older_folder())
    return std::nullopt;
  const uint64_t log_records = core_->shard().state().log_records;
  // Equivalent to no folder, or to a part of one.
  if (log_records == 0 || core_->shard().restoring_count() > 0) return std::nullopt;
  return FolderCopy{disk_->Copy(env_.settings->seed ^ index_), folder_, log_records, OpenRounds()};
}

std::vector<uint32_t> SimShard::OpenRounds() const {
  std::vector<uint32_t> rounds;
  if (core_ == nullptr) return rounds;
  for (const SegmentReport& open : core_->shard().OpenSegments()) rounds.push_back(open.open_round);
  return rounds;
}

void SimShard::CopyFolder() {
  if (auto copy = NewCopy(); copy.has_value()) copy_ = std::move(copy);
}

bool SimShard::IsCopyFarBehind() const {
  const std::vector<uint32_t> rounds = OpenRounds();
  return copy_.has_value() && copy_->folder == folder_ && !rounds.empty() &&
         std::ranges::equal(rounds, copy_->open_rounds, [](uint32_t now, uint32_t then) {
           return now > then + kLostRoundsMax;
         });
}

bool SimShard::LoseTail() {
  if (!tail_.has_value() || tail_->folder != folder_ || has_older_folder() || lacks_tail())
    return false;
  std::vector<uint32_t> rounds = OpenRounds();
  const bool is_short =
      std::ranges::equal(rounds, tail_->open_rounds,
                         [](uint32_t now, uint32_t then) { return now <= then + kLostRoundsMax; });
  if (rounds.empty() || !is_short || core_->shard().restoring_count() > 0 ||
      core_->shard().state().log_records <= tail_->log_records) {
    return false;
  }
  LosePower();
  env_.probes->Hit(Probe::kShardLostTail);
  env_.trace->Print([&] {
    return absl::StrCat("shard ", index_, " loses its log after record ", tail_->log_records);
  });
  UseDisk(std::move(tail_->disk));
  lost_until_ = std::move(rounds);
  restores_told_ = tail_->log_records;
  was_ever_restoring_ = true;
  auto open_round = tail_->open_rounds.begin();
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    if (env_.layout->segments()[s].shard == index_) env_.checker->LostTail(s, *open_round++);
  }
  tail_.reset();
  return true;
}

bool SimShard::IsDeafTo(const FrameName& frame) const {
  const Canary canary = env_.settings->canary;
  const bool is_deaf = (canary == Canary::kDeafShard && lacks_tail()) ||
                       (canary == Canary::kTrustedBackup && has_older_folder());
  const Aggregator* const aggregator = core_->shard().aggregator();
  return is_deaf && aggregator != nullptr && aggregator->OwnsSegment(frame.segment) &&
         frame.round != kRoundNever && frame.round > aggregator->open_round(frame.segment);
}

bool SimShard::PutCopyBack() {
  if (!copy_.has_value() || !up() || has_older_folder() || copy_->folder != folder_) return false;
  if (coordinator_->LogRecordsOf(index_, copy_->folder) <= copy_->log_records) return false;
  return PutBack();
}

bool SimShard::PutBack() {
  Crash();
  env_.probes->Hit(Probe::kShardGotOlderFolder);
  env_.trace->Print([&] {
    return absl::StrCat("shard ", index_, " gets its folder as it was after record ",
                        copy_->log_records);
  });
  newest_disk_ = std::move(disk_);
  UseDisk(std::move(copy_->disk));
  copy_.reset();
  return true;
}

void SimShard::PutNewestBack() {
  if (!has_older_folder()) return;
  if (up()) Crash();
  UseDisk(std::move(newest_disk_));
}

void SimShard::LoseFolder() {
  Crash();
  env_.probes->Hit(Probe::kShardLostFolder);
  env_.trace->Print([&] { return absl::StrCat("shard ", index_, " loses its folder"); });
  UseNewDisk(rng_.Next());
  if (std::exchange(folder_is_new_, true)) return;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    if (env_.layout->segments()[s].shard == index_) env_.checker->LostFolder(s, 1);
  }
}

std::string SimShard::Describe() const {
  if (!up()) return absl::StrCat("shard ", index_, ": down");
  if (core_ == nullptr) return absl::StrCat("shard ", index_, ": without a run");
  const DurableShard& shard = core_->shard();
  std::string text = absl::StrCat("shard ", index_, ": epoch ", known_epoch_, " ", shard.trouble(),
                                  shard.restoring_count() > 0 ? " restoring" : "");
  for (const auto& open : shard.OpenSegments()) {
    absl::StrAppend(&text, "; segment ", open.segment, " at round ", open.open_round, " waits for");
    for (const uint32_t worker : open.waiting_for) absl::StrAppend(&text, " ", worker);
  }
  return text;
}

// Control.

// Makes the due call, and schedules the next one.
void SimShard::CallCoordinator() {
  if (stopped_) return;
  switch (schedule_->TakeDue(now())) {
    case HeartbeatSchedule::Call::kNone:
      if (schedule_->due_at() != absl::InfiniteFuture())
        After(schedule_->due_at() - now(), [this] { CallCoordinator(); });
      return;
    case HeartbeatSchedule::Call::kRegister:
      return Register();
    case HeartbeatSchedule::Call::kHeartbeat:
      return Beat();
  }
}

void SimShard::Register() {
  const RegisterShard request{.shard = index_,
                              .data_endpoint = absl::StrCat("tcp://shard-", index_, ":", port_),
                              .control_endpoint = absl::StrCat("shard-", index_, ":", port_),
                              .incarnation = incarnation_,
                              .settings = "",
                              .run = folder_run_,
                              .folder = folder_};
  coordinator_->Call(*this, request, [this](const absl::StatusOr<CoordinatorEffect>& answer) {
    if (answer.ok()) registration_ = std::get<ShardRegistration>(*answer);
    OnCallEnded(answer.status());
  });
}

void SimShard::Beat() {
  ShardHeartbeat heartbeat{.known_epoch = known_epoch_};
  if (core_ != nullptr) heartbeat = core_->Report(known_epoch_, now());
  // The aggregator may be ahead of the disk.
  if (keeps_tail_) tail_ = commit_is_due_ ? std::nullopt : NewCopy();
  heartbeat.shard = index_;
  heartbeat.incarnation = incarnation_;
  heartbeat.knows_manifest = knows_manifest_;
  coordinator_->Call(*this, heartbeat, [this](const absl::StatusOr<CoordinatorEffect>& answer) {
    const uint32_t epoch = known_epoch_;
    if (answer.ok()) OnReply(std::get<ShardHeartbeatReply>(*answer));
    if (!up() || stopped_) return;
    if (epoch != known_epoch_) schedule_->Urge();
    OnCallEnded(answer.status());
  });
}

void SimShard::OnCallEnded(const absl::Status& answer) {
  const bool was_registered = schedule_->is_registered();
  const bool begun = known_epoch_ != 0;
  if (schedule_->Ended(answer, begun, begun, now()) != HeartbeatSchedule::End::kRefused)
    return CallCoordinator();
  // Before the first round the earlier process keeps its place for a while without heartbeats. A
  // supervisor starts the shard again.
  if (!was_registered && absl::IsAlreadyExists(answer)) return StartAgain();
  if (coordinator_->is_over()) return;
  // Another record of the coordinator may have another folder for the range.
  if (coordinator_->had_older_record()) return StartAgain();
  env_.checker->Violate(absl::StrCat(
      "shard ", index_, " is refused by the coordinator: ", std::string(answer.message())));
}

void SimShard::OnReply(const ShardHeartbeatReply& reply) {
  if (reply.instruction == Instruction::kStop) {
    stopped_ = true;
    return;
  }
  if (reply.manifest.has_value() && !knows_manifest_) {
    OpenShard(*reply.manifest);
    if (!up() || core_ == nullptr) return;
    knows_manifest_ = true;
  }
  if (core_ == nullptr) return;
  if (reply.membership.has_value() && reply.membership->epoch != known_epoch_) {
    known_epoch_ = reply.membership->epoch;
    core_->SetMembership(*reply.membership, now());
    CommitSoon();
  }
  const std::string trouble = core_->shard().trouble();
  core_->HoldBack(reply.reason);
  if (trouble != core_->shard().trouble()) CommitSoon();
  if (!reply.hash_checks.empty() && !EndIfStopped()) {
    core_->SetHashChecks(reply.hash_checks, now());
    CommitSoon();
  }
  EndIfStopped();
}

absl::StatusOr<std::unique_ptr<ShardStore>> SimShard::OpenStore() {
  const ShardStoreOptions options{
      .identity = {registration_->run, index_, env_.layout->hash()},
      .folder = folder_,
      .settings = "",
      .log = {.file_bytes_max = env_.settings->log_file_bytes, .salt = 0}};
  auto store = ShardStore::Open(lying_.get(), kShardFolder, options);
  if (absl::IsDataLoss(store.status()) || absl::IsFailedPrecondition(store.status())) {
    env_.checker->Violate(
        absl::StrCat("shard ", index_, " cannot open its folder: ", store.status().ToString()));
  }
  return store;
}

void SimShard::OpenShard(const Manifest&) {
  DurableShardOptions options = env_.settings->MakeShardOptions(index_, registration_->run);
  options.restore = registration_->restore;
  options.rounds = registration_->rounds;
  options.log_records = std::max<uint64_t>(registration_->log_records, folder_run_ != 0 ? 1 : 0);
  options.told_epoch = registration_->told_epoch;
  if (env_.settings->canary == Canary::kTrustedFolder && !options.restore) {
    options.rounds = 0;
    options.log_records = 0;
  }
  longwave::OpenStore open_store;
  if (env_.settings->shards_have_disks) open_store = [this] { return OpenStore(); };
  auto opened = DurableShard::Open(options, *env_.layout, std::move(open_store));
  if (EndIfStopped()) return;
  if (!opened.ok()) {
    env_.trace->Print([&] {
      return absl::StrCat("shard ", index_, ": ", std::string(opened.status().message()));
    });
    return env_.checker->Violate(
        absl::StrCat("shard ", index_, " does not begin: ", opened.status().ToString()));
  }
  core_ = std::make_unique<ShardCore>(registration_->run, incarnation_, *std::move(opened));
  if (folder_run_ != 0) env_.probes->Hit(Probe::kShardRecovered);
  folder_is_new_ = !env_.settings->shards_have_disks;
  was_restoring_ = core_->shard().restoring_count() > 0;
  // A folder may be empty without a loss, for example after a process that ended in its first
  // write.
  if (was_restoring_) was_ever_restoring_ = true;
  CommitSoon();
}

}  // namespace longwave::sim
