#include "tests/sim/sim_shard.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "server/store/file_catalog.h"

namespace longwave::sim {
namespace {

constexpr char kFolder[] = "shard";
constexpr absl::Duration kBackoff = absl::Milliseconds(300);
constexpr absl::Duration kEarlyInterval = absl::Milliseconds(100);
// Before a process whose folder could not be opened is started again.
constexpr absl::Duration kStartAgain = absl::Seconds(2);

// On a shard's disk, beside log and snapshots: the catalog, and what was set aside as damaged.
constexpr uint64_t kUnknownBytesMax = 8192;

Buffer BufferOf(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return text.empty() ? Buffer() : Buffer(std::move(bytes));
}

}  // namespace

SimShard::SimShard(const Environment& env, SimCoordinator* coordinator, uint32_t shard)
    : Process(env.scheduler, env.settings->NodeOfShard(shard)),
      env_(env),
      coordinator_(coordinator),
      index_(shard),
      rng_(env.settings->seed, 100 + shard),
      disk_(std::make_unique<SimFileSystem>(rng_.Next())),
      lying_(std::make_unique<LyingFileSystem>(disk_.get(), env.settings->canary)) {}

void SimShard::OnStart() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kStart), {node(), generation()});
  env_.trace->Tell([&] { return absl::StrCat("shard ", index_, " starts"); });
  incarnation_ = rng_.Next() | 1;
  if (port_ == 0 || env_.settings->shards_move) port_ = generation();
  Register();
}

void SimShard::OnCrash() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kCrash), {node()});
  env_.trace->Tell([&] {
    return absl::StrCat("shard ", index_, " ends",
                        next_stop_ == SimFileSystem::Stop::kPower ? " with its machine" : "");
  });
  env_.probes->Hit(Probe::kShardCrashed);
  registration_.reset();
  known_epoch_ = 0;
  knows_manifest_ = false;
  membership_ = {};
  shard_.reset();
  routes_.clear();
  askers_.clear();
  commit_is_due_ = had_trouble_ = was_restoring_ = false;
  wakes_at_ = absl::InfiniteFuture();
  closed_by_quorum_ = log_bytes_ = 0;
  disk_->Restart(std::exchange(next_stop_, SimFileSystem::Stop::kProcess));
  if (env_.settings->canary == Canary::kForgottenFolder) {
    disk_ = std::make_unique<SimFileSystem>(rng_.Next());
    lying_ = std::make_unique<LyingFileSystem>(disk_.get(), env_.settings->canary);
    folder_run_ = 0;
  }
}

void SimShard::LosePower() {
  env_.probes->Hit(Probe::kShardLostPower);
  next_stop_ = SimFileSystem::Stop::kPower;
  Crash();
}

void SimShard::LoseFolder() {
  Crash();
  env_.probes->Hit(Probe::kShardLostFolder);
  env_.trace->Tell([&] { return absl::StrCat("shard ", index_, " loses its folder"); });
  disk_ = std::make_unique<SimFileSystem>(rng_.Next());
  lying_ = std::make_unique<LyingFileSystem>(disk_.get(), env_.settings->canary);
  if (folder_run_ == 0) return;
  folder_run_ = 0;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    if (env_.layout->segments()[s].shard == index_) env_.checker->LostFolder(s, 1);
  }
}

// The process ends where its disk has stopped in the midst of a write.
bool SimShard::EndIfStopped() {
  if (!disk_->crashed()) return false;
  env_.probes->Hit(Probe::kShardCrashedInWrite);
  if (write_crash_is_power_) next_stop_ = SimFileSystem::Stop::kPower;
  Crash();
  on_write_crash();
  return true;
}

std::string SimShard::Describe() const {
  if (!up()) return absl::StrCat("shard ", index_, ": down");
  if (shard_ == nullptr) return absl::StrCat("shard ", index_, ": without a run");
  std::string text = absl::StrCat("shard ", index_, ": epoch ", known_epoch_, " ",
                                  shard_->trouble(), shard_->is_restoring() ? " restoring" : "");
  for (const auto& open : shard_->OpenSegments()) {
    absl::StrAppend(&text, "; segment ", open.segment, " at round ", open.open_round, " waits for");
    for (const uint32_t worker : open.waiting_for) absl::StrAppend(&text, " ", worker);
  }
  return text;
}

// Control.

void SimShard::Register() {
  const RegisterShard request{.shard = index_,
                              .data_endpoint = absl::StrCat("tcp://shard-", index_, ":", port_),
                              .control_endpoint = absl::StrCat("shard-", index_, ":", port_),
                              .incarnation = incarnation_,
                              .settings = "",
                              .run = folder_run_};
  coordinator_->Call(*this, request, [this](const absl::StatusOr<CoordinatorEffect>& answer) {
    if (answer.ok()) {
      registration_ = std::get<ShardRegistration>(*answer);
      return Beat();
    }
    // Before the first round the process before has its place until it is silent for long enough:
    // whoever starts shards tries again.
    if (absl::IsUnavailable(answer.status()) || absl::IsAlreadyExists(answer.status()))
      return After(kBackoff, [this] { Register(); });
    if (coordinator_->is_over()) return;
    env_.checker->Violate(absl::StrCat(
        "shard ", index_, " may not register: ", std::string(answer.status().message())));
  });
}

void SimShard::Beat() {
  ShardHeartbeat heartbeat{.shard = index_,
                           .incarnation = incarnation_,
                           .known_epoch = known_epoch_,
                           .knows_manifest = knows_manifest_,
                           .state = {},
                           .failure = "",
                           .trouble = "",
                           .snapshots = {}};
  if (shard_ != nullptr) {
    heartbeat.state = shard_->state();
    heartbeat.trouble = shard_->trouble();
    heartbeat.snapshots = shard_->UnconfirmedSnapshots();
  }
  coordinator_->Call(*this, heartbeat, [this](const absl::StatusOr<CoordinatorEffect>& answer) {
    if (answer.ok()) {
      const uint32_t epoch = known_epoch_;
      TakeReply(std::get<ShardHeartbeatReply>(*answer));
      if (!up() || stopped_) return;
      const bool learned = epoch != known_epoch_;
      const absl::Duration interval =
          known_epoch_ == 0 ? kEarlyInterval : env_.settings->heartbeat_interval;
      return After(learned ? absl::ZeroDuration() : interval, [this] { Beat(); });
    }
    if (absl::IsUnavailable(answer.status())) return After(kBackoff, [this] { Beat(); });
    if (coordinator_->is_over()) return;
    if (known_epoch_ == 0) return StartAgain();  // it had no place yet, and lost it
    env_.checker->Violate(absl::StrCat(
        "shard ", index_, "'s heartbeat is refused: ", std::string(answer.status().message())));
  });
}

void SimShard::TakeReply(const ShardHeartbeatReply& reply) {
  if (reply.instruction == Instruction::kStop) {
    stopped_ = true;
    return;
  }
  if (reply.manifest.has_value() && !knows_manifest_) {
    OpenShard(*reply.manifest);
    if (!up() || shard_ == nullptr) return;
    knows_manifest_ = true;
  }
  if (shard_ == nullptr) return;
  if (reply.membership.has_value() && reply.membership->epoch != known_epoch_) {
    membership_ = *reply.membership;
    known_epoch_ = membership_.epoch;
    std::erase_if(routes_, [&](const auto& route) { return !IsMember(route.first); });
    Step(MembershipChanged{membership_}, nullptr);
  }
  if (!reply.verdicts.empty()) Step(VerdictsArrived{reply.verdicts}, nullptr);
}

absl::StatusOr<std::unique_ptr<ShardStore>> SimShard::OpenStore() {
  const ShardStoreOptions options{
      .identity = {registration_->run, index_, env_.layout->hash()},
      .settings = "",
      .log = {.file_bytes_max = env_.settings->log_file_bytes, .salt = 0},
      .make_catalog = [this](const std::string& folder) {
        return MakeFileCatalog(lying_.get(), folder);
      }};
  return ShardStore::Open(lying_.get(), kFolder, options);
}

void SimShard::OpenShard(const Manifest&) {
  DurableShardOptions options = env_.settings->MakeShardOptions(index_, registration_->run);
  options.restore = registration_->restore;
  longwave::OpenStore open_store;
  if (env_.settings->shards_have_disks) open_store = [this] { return OpenStore(); };
  auto opened = DurableShard::Open(options, *env_.layout, std::move(open_store));
  if (EndIfStopped()) return;
  if (!opened.ok()) {
    env_.trace->Tell([&] {
      return absl::StrCat("shard ", index_, ": ", std::string(opened.status().message()));
    });
    const auto code = opened.status().code();
    const bool of_the_disk =
        code == absl::StatusCode::kUnknown || code == absl::StatusCode::kResourceExhausted;
    if (!of_the_disk) {
      return env_.checker->Violate(
          absl::StrCat("shard ", index_, " cannot open its folder: ", opened.status().ToString()));
    }
    return StartAgain();
  }
  shard_ = *std::move(opened);
  if (folder_run_ != 0) env_.probes->Hit(Probe::kShardRecovered);
  if (env_.settings->shards_have_disks) folder_run_ = registration_->run;
  was_restoring_ = shard_->is_restoring();
  CommitSoon();
}

// The process ends, and whoever watches over it starts it again.
void SimShard::StartAgain() {
  Crash();
  scheduler_->After(kStartAgain, [this] { Start(); });
}

// Data.

bool SimShard::IsMember(uint32_t worker) const {
  return std::ranges::any_of(membership_.members,
                             [&](const Member& member) { return member.worker == worker; });
}

void SimShard::TakeFrame(const WireFrame& frame, const Peer& from, FrameTaker* taker,
                         uint64_t port) {
  if (port != port_ || shard_ == nullptr || known_epoch_ == 0) return;
  const FrameHeader header = Open(frame, env_.checker);
  env_.trace->Add(
      static_cast<uint64_t>(Mark::kFrameToShard),
      {node(), static_cast<uint64_t>(header.kind), header.worker, header.round, header.segment});
  env_.trace->Tell([&] {
    return absl::StrCat("shard ", index_, " gets ", std::string(Name(header.kind)), " of worker ",
                        header.worker, ", round ", header.round, ", segment ", header.segment);
  });
  const Asker asker{from, taker, header.kind == FrameKind::kPush ? header.payload_crc : 0};
  if (header.run == registration_->run && IsMember(header.worker)) routes_[header.worker] = asker;
  Handle(header, frame, asker);
  if (header.kind == FrameKind::kPush && env_.settings->canary == Canary::kDoubledPush &&
      shard_ != nullptr) {
    DoublePush(header, frame);
  }
}

void SimShard::Handle(const FrameHeader& header, const WireFrame& frame, const Asker& asker) {
  switch (header.kind) {
    case FrameKind::kHello:
      return AnswerHello(header, asker);
    case FrameKind::kPush:
      return Step(PushArrived{header, frame.payload}, &asker);
    case FrameKind::kPull:
      return Step(PullArrived{header}, &asker);
    case FrameKind::kFetch:
      return Step(FetchArrived{header}, &asker);
    case FrameKind::kSnapshot:
      return Step(SnapshotArrived{header, frame.payload}, &asker);
    case FrameKind::kAnswer:
    case FrameKind::kMerged:
    case FrameKind::kAsk:
      return env_.checker->Violate("a worker sent a frame that only shards send");
  }
}

void SimShard::DoublePush(const FrameHeader& header, const WireFrame& frame) {
  for (const Member& member : membership_.members) {
    if (member.worker == header.worker || member.first_round > header.round) continue;
    FrameHeader doubled = header;
    doubled.worker = member.worker;
    return Step(PushArrived{doubled, frame.payload}, nullptr);
  }
}

void SimShard::AnswerHello(const FrameHeader& header, const Asker& asker) {
  FrameHeader answer = header;
  answer.kind = FrameKind::kAnswer;
  answer.epoch = membership_.epoch;
  answer.weight = incarnation_;
  std::string reason;
  answer.outcome = Outcome::kAccepted;
  if (header.run != registration_->run) {
    answer.outcome = Outcome::kRejected;
    reason = "another run";
  } else if (!IsMember(header.worker)) {
    answer.outcome = Outcome::kRejected;
    reason = absl::StrCat("worker ", header.worker, " is not a member");
  }
  SendTo(asker, answer, BufferOf(reason));
}

void SimShard::Step(const ShardEvent& event, const Asker* asker) {
  if (shard_ == nullptr) return;
  const uint64_t number = shard_->Step(event, now());
  if (asker != nullptr) askers_[number] = *asker;
  if (EndIfStopped()) return;
  CommitSoon();
}

void SimShard::CommitSoon() {
  if (std::exchange(commit_is_due_, true)) return;
  After(env_.settings->commit_time_max * rng_.Uniform(), [this] { Commit(); });
}

void SimShard::Commit() {
  commit_is_due_ = false;
  std::vector<ShardEffect> effects = shard_->Commit(now());
  if (EndIfStopped()) return;
  for (ShardEffect& effect : effects) Perform(effect);
  env_.checker->Committed();
  askers_.clear();
  shard_->Tend(now());
  if (EndIfStopped()) return;
  Observe();
  WakeWhenDue();
}

void SimShard::WakeWhenDue() {
  const absl::Time due = shard_->NextDue();
  if (due == absl::InfiniteFuture() || commit_is_due_) return;
  const absl::Time at = std::max(due, now());
  if (at >= wakes_at_ && wakes_at_ > now()) return;  // it wakes before, and looks again
  wakes_at_ = at;
  After(at - now(), [this, at] {
    if (wakes_at_ == at) wakes_at_ = absl::InfiniteFuture();
    if (commit_is_due_ || shard_ == nullptr) return;
    Commit();
  });
}

void SimShard::Perform(ShardEffect& effect) {
  if (const auto* answer = std::get_if<AnswerPush>(&effect.what)) {
    const auto asker = askers_.find(effect.event);
    env_.checker->Answered(answer->header, asker == askers_.end() ? 0 : asker->second.crc);
    switch (answer->header.outcome) {
      case Outcome::kDuplicate:
        env_.probes->Hit(Probe::kPushDuplicate);
        break;
      case Outcome::kLate:
        env_.probes->Hit(Probe::kPushLate);
        break;
      case Outcome::kBusy:
        env_.probes->Hit(Probe::kPushBusy);
        break;
      case Outcome::kNotMember:
        env_.probes->Hit(Probe::kPushNotMember);
        break;
      case Outcome::kGone:
        env_.probes->Hit(Probe::kPullGone);
        break;
      default:
        break;
    }
    if (asker != askers_.end()) SendTo(asker->second, answer->header, BufferOf(answer->reason));
  } else if (const auto* merged = std::get_if<SendMerged>(&effect.what)) {
    PerformMerged(*merged);
  } else if (const auto* snapshot = std::get_if<SendSnapshot>(&effect.what)) {
    env_.probes->Hit(Probe::kFetchBySnapshot);
    SendToWorker(snapshot->worker, snapshot->header, snapshot->payload);
  } else {
    const auto& ask = std::get<AskSnapshot>(effect.what);
    env_.probes->Hit(Probe::kSnapshotAsked);
    SendToWorker(ask.worker, ask.header, Buffer());
  }
}

void SimShard::PerformMerged(const SendMerged& merged) {
  const std::vector<Contributor>* contributors = nullptr;
  absl::StatusOr<MergedRecord> record = absl::NotFoundError("");
  if (ShardStore* const store = shard_->store(); store != nullptr) {
    record = store->log().ReadMerged(merged.header.segment, merged.header.round);
    if (record.ok()) contributors = &record->contributors;
  }
  env_.checker->Merged(merged.header, merged.payload, contributors,
                       [&](uint32_t worker) { return LoggedCrc(merged.header, worker); });
  Buffer payload = merged.payload;
  for (size_t i = 0; i < merged.workers.size(); ++i) {
    if (env_.settings->canary == Canary::kAlteredMerge && i == 1) {
      std::vector<std::byte> altered(payload.bytes().begin(), payload.bytes().end());
      // The last value's lowest byte: still finite, and in its place.
      altered[altered.size() - 4] ^= std::byte{1};
      SendToWorker(merged.workers[i], merged.header, Buffer(std::move(altered)));
      continue;
    }
    SendToWorker(merged.workers[i], merged.header, payload);
  }
}

// Of the push of a round that is closed, where more than one was made under its name.
std::optional<uint32_t> SimShard::LoggedCrc(const FrameHeader& merged, uint32_t worker) {
  ShardStore* const store = shard_->store();
  if (store == nullptr) return std::nullopt;
  std::optional<uint32_t> crc;
  const absl::Status read = store->log().Replay(0, [&](uint64_t, const LogRecord& record) {
    const auto* push = std::get_if<PushRecord>(&record);
    if (push != nullptr && push->header.worker == worker && push->header.round == merged.round &&
        push->header.segment == merged.segment) {
      crc = push->header.payload_crc;
    }
    return absl::OkStatus();
  });
  return read.ok() ? crc : std::nullopt;
}

void SimShard::SendTo(const Asker& to, const FrameHeader& header, const Buffer& payload) {
  const WireFrame frame = Seal(header, payload);
  Process* const process = to.peer.process;
  env_.network->Send(
      node(), *process, frame.bytes(), Network::Kind::kDatagram,
      [process, generation = to.peer.generation, taker = to.taker, frame, shard = index_] {
        // A connection ends with either of its processes.
        if (process->generation() == generation) taker->TakeFrame(shard, frame);
      });
}

void SimShard::SendToWorker(uint32_t worker, const FrameHeader& header, const Buffer& payload) {
  const auto route = routes_.find(worker);
  if (route != routes_.end()) SendTo(route->second, header, payload);
}

void SimShard::Observe() {
  const ShardState state = shard_->state();
  if (state.closed_by_quorum > closed_by_quorum_)
    env_.probes->Hit(Probe::kClosedByQuorum, state.closed_by_quorum - closed_by_quorum_);
  closed_by_quorum_ = state.closed_by_quorum;
  if (state.log_bytes < log_bytes_) env_.probes->Hit(Probe::kLogDropped);
  log_bytes_ = state.log_bytes;
  const bool trouble = !shard_->trouble().empty();
  if (trouble && !had_trouble_) env_.probes->Hit(Probe::kShardTrouble);
  if (!trouble && had_trouble_) env_.probes->Hit(Probe::kShardTroubleEnded);
  had_trouble_ = trouble;
  if (was_restoring_ && !shard_->is_restoring()) {
    env_.probes->Hit(Probe::kShardRestoredByReplicas);
    was_restoring_ = false;
  }
  for (const std::string& notice : shard_->TakeNotices()) {
    env_.trace->Tell([&] { return absl::StrCat("shard ", index_, ": ", notice); });
  }
  uint64_t open_bytes = 0;
  for (const auto& open : shard_->OpenSegments()) open_bytes += open.open_bytes;
  if (open_bytes > env_.settings->OpenBytesBound()) {
    env_.checker->Violate(absl::StrCat("shard ", index_, " holds ", open_bytes,
                                       " bytes of open pushes, wanted ",
                                       env_.settings->OpenBytesBound(), " at most"));
  }
  // Every byte on the disk is one that the shard knows of, but for its catalog and a temporary.
  if (trouble) return;
  const uint64_t used = disk_->used_bytes();
  const uint64_t known = state.log_bytes + state.snapshot_bytes;
  if (used > known + kUnknownBytesMax) {
    env_.checker->Violate(
        absl::StrCat("shard ", index_, "'s disk has ", used, " bytes, of which it knows ", known));
  }
}

}  // namespace longwave::sim
