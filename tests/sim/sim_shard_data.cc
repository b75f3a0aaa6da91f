// Its frames, and what is held against the rules.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/wire/crc32c.h"
#include "common/wire/scale16.h"
#include "common/wire/square_sum.h"
#include "tests/sim/coefficients.h"
#include "tests/sim/sim_shard.h"

namespace longwave::sim {
namespace {

// On a shard's disk, beside log and snapshots: the catalog, and what was set aside as damaged.
constexpr uint64_t kUnknownBytesMax = 8192;

Buffer BufferOf(const std::string& text) {
  if (text.empty()) return Buffer();
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return Buffer(std::move(bytes));
}

}  // namespace

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
  if (header.kind == FrameKind::kPush && from.process->node() == env_.poison->node &&
      now() < env_.poison->until) {
    Poison(header, frame);
  }
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

// 0: of a weight that outweighs all others; 1: of values whose sum overflows; 2: of values beyond
// all measure, where the shard has a measure: with an update of the segment there is one, however
// few push.
void SimShard::Poison(FrameHeader header, const WireFrame& frame) {
  const Aggregator* const aggregator = shard_->aggregator();
  if (shard_->store() == nullptr || aggregator == nullptr || !IsMember(header.worker) ||
      header.round != aggregator->open_round(header.segment)) {
    return;
  }
  Buffer payload = frame.payload;
  if (env_.poison->kind == 0) {
    header.weight = kWeightMax;
  } else {
    const auto closed = aggregator->Export(header.segment).closed;
    if (env_.poison->kind == 2 && !(closed.has_value() && closed->header.norm > 0)) return;
    const float value = env_.poison->kind == 1 ? 3e38f : 1e15f;
    std::vector<std::byte> bytes(payload.bytes().begin(), payload.bytes().end());
    const bool quantized = env_.settings->method == Method::kQuantized;
    const uint16_t scale = EncodeScale16(value);
    if (quantized) {
      std::memcpy(bytes.data() + kPayloadHeadBytes, &scale, sizeof scale);
    } else {
      std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
    }
    payload = Buffer(std::move(bytes));
    const double squares = PayloadSquareSum(LayoutOfPayload(payload.bytes()), payload.bytes());
    header.norm = static_cast<float>(std::min(std::sqrt(squares), double{FLT_MAX}));
    header.payload_crc = Crc32c(payload.bytes());
    if (env_.poison->kind == 2) env_.checker->Poisoned(header, payload);
  }
  poisons_[shard_->Step(PushArrived{header, std::move(payload)}, now())] = env_.poison->kind;
  if (!EndIfStopped()) CommitSoon();
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
  poisons_.clear();
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
  if (const auto* clipped = std::get_if<ContributionClipped>(&effect.what)) {
    if (clipped->left_out && env_.checker->IsPoisoner(clipped->worker)) {
      return env_.probes->Hit(Probe::kPoisonLeftOut);
    }
    return env_.checker->Violate(absl::StrCat("not poisoned: ", clipped->reason));
  }
  if (const auto* answer = std::get_if<AnswerPush>(&effect.what);
      answer != nullptr && poisons_.contains(effect.event)) {
    const bool rejected = answer->header.outcome == Outcome::kRejected;
    if (rejected) env_.probes->Hit(Probe::kPoisonRejected);
    if (answer->header.outcome == Outcome::kAccepted && poisons_[effect.event] != 2) {
      env_.checker->Violate("a poisoned push was accepted");
    }
    return;
  }
  if (const auto* answer = std::get_if<AnswerPush>(&effect.what)) {
    const auto asker = askers_.find(effect.event);
    env_.trace->Tell([&] {
      return absl::StrCat("shard ", index_, " answers worker ", answer->header.worker, ", round ",
                          answer->header.round, ", segment ", answer->header.segment, ": ",
                          std::string(Name(answer->header.outcome)), ", open is round ",
                          answer->header.weight);
    });
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
  } else if (const auto* ask = std::get_if<AskSnapshot>(&effect.what)) {
    env_.probes->Hit(ask->header.round == 0 ? Probe::kPositionAsked : Probe::kSnapshotAsked);
    SendToWorker(ask->worker, ask->header, Buffer());
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
  env_.network->Send(node(), *process, frame.bytes(), Network::Kind::kDatagram,
                     [this, process, generation = to.peer.generation, own = generation(),
                      connection = to.peer.connection, taker = to.taker, frame] {
                       // A connection ends with either of its processes; what the shard's last one
                       // had sent may come until the next one is there.
                       const bool is_open =
                           process->generation() == generation && this->generation() <= own + 1;
                       if (is_open) taker->TakeFrame(index_, connection, frame);
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
  if (has_older_folder() && !trouble) {
    env_.checker->Violate(
        absl::StrCat("shard ", index_, " goes on from a folder of an older time"));
  }
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
  const uint64_t open_bytes_max = env_.settings->OpenBytesBound(was_ever_restoring_);
  if (open_bytes > open_bytes_max) {
    env_.checker->Violate(absl::StrCat("shard ", index_, " holds ", open_bytes,
                                       " bytes of open pushes, wanted ", open_bytes_max,
                                       " at most"));
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
