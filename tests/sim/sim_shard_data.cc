// SimShard's frames, and checks of the rules.
#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/wire/crc32c.h"
#include "common/wire/scale16.h"
#include "common/wire/snapshot_payload.h"
#include "common/wire/square_sum.h"
#include "server/shard_state/shard_core.h"
#include "server/store/snapshot_content.h"
#include "tests/sim/coefficients.h"
#include "tests/sim/sim_shard.h"

namespace longwave::sim {
namespace {

// On a shard's disk, beside log and snapshots: the catalog, and damaged files that were set aside.
constexpr uint64_t kUnknownBytesMax = 8192;

PeerId PeerIdOf(const Peer& peer) {
  const std::array<uint32_t, 3> words = {peer.process->node(),
                                         static_cast<uint32_t>(peer.generation),
                                         static_cast<uint32_t>(peer.connection)};
  return PeerId(reinterpret_cast<const char*>(words.data()), sizeof words);
}

}  // namespace

void SimShard::OnFrame(const WireFrame& frame, const Peer& from, FrameReceiver* receiver,
                       uint64_t port) {
  if (port != port_ || core_ == nullptr || known_epoch_ == 0) return;
  const FrameHeader header = Open(frame, env_.checker);
  const FrameName name = header;
  env_.trace->Add(
      static_cast<uint64_t>(Mark::kFrameToShard),
      {node(), static_cast<uint64_t>(name.kind), name.worker, name.round, name.segment});
  env_.trace->Print([&] {
    return absl::StrCat("shard ", index_, " gets ", std::string(Name(name.kind)), " of worker ",
                        name.worker, ", round ", name.round, ", segment ", name.segment);
  });
  if (IsDeafTo(name)) return;
  const auto* const push = std::get_if<PushFrame>(&header);
  if (push != nullptr && from.process->node() == env_.poison->node && now() < env_.poison->until) {
    Poison(*push, frame);
    if (EndIfStopped()) return;
  }
  const PeerId peer = PeerIdOf(from);
  uint64_t& newest = newest_connections_[from.process->node()];
  if (from.id() < newest) env_.probes->Hit(Probe::kFrameOvertaken);
  newest = std::max(newest, from.id());
  connections_.insert_or_assign(peer, Connection{from, receiver});
  const auto* const hello = std::get_if<HelloFrame>(&header);
  const uint32_t number = hello != nullptr ? hello->frames_sent : name.round;
  ++requests_[{peer, name.kind, number, name.segment}];
  const ShardCore::Taken taken = core_->OnFrame({peer, {header, frame.payload}}, now());
  if (EndIfStopped()) return;
  if (taken.is_of_shards) env_.checker->Violate("a worker sent a frame that only shards send");
  if (push != nullptr) pushes_[taken.event] = push->payload_crc;
  if (push != nullptr && env_.settings->canary == Canary::kDoubledPush) {
    DoublePush(*push, frame);
    if (EndIfStopped()) return;
  }
  SendDue();
  CommitSoon();
}

// 0: a weight that outweighs all others. 1: values whose sum overflows. 2: huge values, if the
// shard has a usual norm to compare with: an update of the segment suffices, with any number of
// senders.
void SimShard::Poison(PushFrame header, const WireFrame& frame) {
  const Aggregator* const aggregator = core_->shard().aggregator();
  if (core_->shard().store() == nullptr || aggregator == nullptr ||
      !core_->IsMember(header.worker) || header.round != aggregator->open_round(header.segment)) {
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
  const PushArrived push{header, std::move(payload)};
  poisons_[core_->shard().Step(push, now())] = env_.poison->kind;
}

void SimShard::DoublePush(const PushFrame& header, const WireFrame& frame) {
  for (const Member& member : core_->membership().members) {
    if (member.worker == header.worker || member.first_round > header.round) continue;
    PushFrame doubled = header;
    doubled.worker = member.worker;
    core_->shard().Step(PushArrived{doubled, frame.payload}, now());
    return;
  }
}

void SimShard::CommitSoon() {
  if (std::exchange(commit_is_due_, true)) return;
  After(env_.settings->commit_time_max * rng_.Uniform(), [this] { Commit(); });
}

void SimShard::Commit() {
  commit_is_due_ = false;
  const std::vector<ShardEffect> effects = core_->Commit(now());
  if (EndIfStopped()) return;
  TakeNotices();
  for (const ShardEffect& effect : effects) Check(effect);
  env_.checker->Committed();
  pushes_.clear();
  poisons_.clear();
  SendDue();
  core_->Tend(now());
  if (EndIfStopped()) return;
  Observe();
  if (commit_is_due_) return;
  WakeAt(core_->NextDue(), [this] {
    if (!commit_is_due_ && core_ != nullptr) Commit();
  });
}

void SimShard::SendDue() {
  core_->SendDue(
      now(), [this](const PeerId& peer, const SealedFrame& frame) { return Send(peer, frame); });
}

// Sends like a router's socket, which may refuse the frame.
absl::Status SimShard::Send(const PeerId& id, const SealedFrame& sealed) {
  const auto& [peer, receiver] = connections_.at(id);
  if (peer.process->generation() != peer.generation) {
    env_.probes->Hit(Probe::kPeerGone);
    return absl::NotFoundError("its process has ended");
  }
  if (env_.network->IsClogged(node(), peer.process->node()) && rng_.Uniform() < 0.5) {
    env_.probes->Hit(Probe::kSendQueueFull);
    return absl::UnavailableError("its queue is full");
  }
  const WireFrame frame = Wire(sealed);
  const FrameHeader header = Open(frame, env_.checker);
  if (header.kind() == FrameKind::kAnswer) CheckIsRequested(id, header);
  if (header.kind() == FrameKind::kRequest && header.segment() == kNoSegment)
    env_.probes->Hit(Probe::kHelloRequested);
  env_.network->Send(node(), *peer.process, peer.id() + (generation() << 16), frame.bytes(),
                     [this, peer = peer, receiver = receiver, own = generation(), frame] {
                       // A connection ends with either process. Frames of the shard's last process
                       // may arrive until the next one runs.
                       const bool is_open =
                           peer.process->generation() == peer.generation && generation() <= own + 1;
                       if (is_open) receiver->OnFrame(index_, peer.connection, frame);
                     });
  return absl::OkStatus();
}

// The frame as sent over the network, altered if a canary says so.
WireFrame SimShard::Wire(const SealedFrame& sealed) {
  WireFrame frame{.header = {}, .payload = sealed.payload()};
  std::ranges::copy(sealed.head(), frame.header.begin());
  const FrameHeader& header = sealed.header();
  if (const auto* welcome = std::get_if<WelcomeFrame>(&header);
      welcome != nullptr && env_.settings->canary == Canary::kUnnamedAnswer) {
    WelcomeFrame unnamed = *welcome;
    ++unnamed.frames_sent;
    return sim::Seal(unnamed, frame.payload);
  }
  if (env_.settings->canary == Canary::kAlteredMerge && header.kind() == FrameKind::kMerged &&
      std::exchange(last_merged_, header) == header) {
    std::vector<std::byte> altered(frame.payload.bytes().begin(), frame.payload.bytes().end());
    // The lowest byte of the last value: the result is finite and in place.
    altered[altered.size() - 4] ^= std::byte{1};
    return sim::Seal(header, Buffer(std::move(altered)));
  }
  return frame;
}

void SimShard::CheckIsRequested(const PeerId& peer, const FrameHeader& answer) {
  const auto* const welcome = std::get_if<WelcomeFrame>(&answer);
  const FrameKind kind = welcome != nullptr ? FrameKind::kHello : std::get<AnswerFrame>(answer).to;
  const uint32_t number = welcome != nullptr ? welcome->frames_sent : answer.round();
  const auto found = requests_.find({peer, kind, number, answer.segment()});
  if (found == requests_.end()) {
    return env_.checker->Violate(
        absl::StrCat("shard ", index_, " answers worker ", answer.worker(), ", round ", number,
                     ", segment ", answer.segment(), ", and no ", std::string(Name(kind)),
                     ", the kind that the answer names, waits for one on that connection"));
  }
  if (--found->second == 0) requests_.erase(found);
}

void SimShard::Check(const ShardEffect& effect) {
  const auto* const send = std::get_if<SendFrame>(&effect.what);
  if (send == nullptr) {
    const auto& clipped = std::get<ContributionClipped>(effect.what);
    if (clipped.left_out && env_.checker->IsPoisoner(clipped.worker))
      return env_.probes->Hit(Probe::kPoisonLeftOut);
    return env_.checker->Violate(absl::StrCat("not poisoned: ", clipped.reason));
  }
  if (const auto* answer = HeaderOf<AnswerFrame>(effect)) {
    CheckAnswer(effect.event, *answer);
  } else if (const auto* merged = HeaderOf<MergedFrame>(effect)) {
    CheckMerged(*merged, send->frame.payload());
  } else if (const auto* snapshot = HeaderOf<SnapshotFrame>(effect)) {
    env_.probes->Hit(Probe::kFetchBySnapshot);
    if (snapshot->round == 0) CheckStart(snapshot->segment, send->frame.payload());
  } else {
    const uint32_t round = send->frame.header().round();
    env_.probes->Hit(round == 0             ? Probe::kPositionRequested
                     : round == kRoundNever ? Probe::kStartRequested
                                            : Probe::kSnapshotRequested);
  }
}

void SimShard::CheckStart(uint32_t segment, const Buffer& payload) {
  env_.probes->Hit(Probe::kStartTold);
  const auto arrays = DecodeSnapshotPayload(payload.bytes(), 1, kSegmentElements);
  if (!arrays.ok() || arrays->front() != env_.checker->Theta(segment, 0)) {
    env_.checker->Violate(absl::StrCat("shard ", index_, " tells another start of segment ",
                                       segment, " than the run's"));
  }
}

void SimShard::CheckEnd() {
  if (core_ == nullptr || core_->shard().store() == nullptr) return;
  SnapshotStore& snapshots = core_->shard().store()->snapshots();
  for (const SnapshotHeader& header : snapshots.All()) {
    if (header.key.kind != SnapshotKind::kStart) continue;
    env_.probes->Hit(Probe::kStartKept);
    const auto content = snapshots.Read(header.key);
    if (!content.ok()) continue;  // the disk is not under test here
    const auto arrays = DecodeModelContent(*content, 1);
    const std::vector<float>& wanted = env_.checker->Theta(header.key.first_segment, 0);
    if (arrays.ok() && std::ranges::equal(arrays->front(), wanted)) continue;
    env_.checker->Violate(absl::StrCat("shard ", index_, " has kept another start of segment ",
                                       header.key.first_segment, " than the run's"));
  }
}

void SimShard::CheckAnswer(uint64_t event, const AnswerFrame& header) {
  if (const auto poison = poisons_.find(event); poison != poisons_.end()) {
    if (header.outcome == Outcome::kRejected) env_.probes->Hit(Probe::kPoisonRejected);
    if (header.outcome == Outcome::kAccepted && poison->second != 2)
      env_.checker->Violate("a poisoned push was accepted");
    return;
  }
  env_.trace->Print([&] {
    return absl::StrCat("shard ", index_, " answers worker ", header.worker, ", round ",
                        header.round, ", segment ", header.segment, ": ",
                        std::string(Name(header.outcome)), ", open is round ", header.open_round);
  });
  const auto push = pushes_.find(event);
  // A shard on an older folder is where the folder is, until that is noticed, but takes no push.
  AnswerFrame told = header;
  if (has_older_folder()) told.open_round = 0;
  env_.checker->Answered(told, push == pushes_.end() ? 0 : push->second);
  switch (header.outcome) {
    case Outcome::kDuplicate:
      return env_.probes->Hit(Probe::kPushDuplicate);
    case Outcome::kLate:
      return env_.probes->Hit(Probe::kPushLate);
    case Outcome::kBusy:
      return env_.probes->Hit(Probe::kPushBusy);
    case Outcome::kNotMember:
      return env_.probes->Hit(Probe::kPushNotMember);
    case Outcome::kCompacted:
      return env_.probes->Hit(Probe::kPullCompacted);
    default:
      return;
  }
}

void SimShard::CheckMerged(const MergedFrame& header, const Buffer& payload) {
  const std::vector<Contributor>* contributors = nullptr;
  absl::StatusOr<MergedRecord> record = absl::NotFoundError("");
  if (ShardStore* const store = core_->shard().store(); store != nullptr) {
    record = store->log().ReadMerged(header.segment, header.round);
    if (record.ok()) contributors = &record->contributors;
  }
  env_.checker->Merged(header, payload, contributors,
                       [&](uint32_t worker) { return LoggedCrc(header, worker); });
}

// The CRC of the worker's push in a closed round, if several pushes were made under its name.
std::optional<uint32_t> SimShard::LoggedCrc(const MergedFrame& merged, uint32_t worker) {
  ShardStore* const store = core_->shard().store();
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

void SimShard::TakeNotices() {
  for (const std::string& notice : core_->TakeNotices())
    env_.trace->Print([&] { return absl::StrCat("shard ", index_, ": ", notice); });
  if (keeps_tail_ && core_->shard().store() != nullptr) TellRestores();
}

void SimShard::TellRestores() {
  DeltaLog& log = core_->shard().store()->log();
  if (log.durable_sequence() <= restores_told_) return;
  const absl::Status read = log.Replay(restores_told_ + 1, [&](uint64_t, const LogRecord& record) {
    if (const auto* restored = std::get_if<RestoredRecord>(&record); restored != nullptr)
      env_.checker->Restored(restored->segment, restored->round);
    return absl::OkStatus();
  });
  if (read.ok()) restores_told_ = log.durable_sequence() - 1;
}

void SimShard::Observe() {
  const DurableShard& shard = core_->shard();
  const ShardState state = shard.state();
  if (state.closed_by_quorum > closed_by_quorum_)
    env_.probes->Hit(Probe::kClosedByQuorum, state.closed_by_quorum - closed_by_quorum_);
  closed_by_quorum_ = state.closed_by_quorum;
  if (state.log_bytes < log_bytes_) env_.probes->Hit(Probe::kLogDropped);
  log_bytes_ = state.log_bytes;
  const bool trouble = !shard.trouble().empty();
  // An older coordinator knows nothing of it, so that the members are to be heard first.
  const bool goes_on = coordinator_->has_older_record() ? state.segments_closed > 0 : !trouble;
  if (has_older_folder() && goes_on) {
    env_.checker->Violate(
        absl::StrCat("shard ", index_, " goes on from a folder of an older time"));
  }
  if (lacks_tail() && std::ranges::equal(OpenRounds(), lost_until_, std::greater_equal<>())) {
    env_.probes->Hit(Probe::kTailRestored);
    lost_until_.clear();
  }
  if (trouble && !had_trouble_) env_.probes->Hit(Probe::kShardTrouble);
  if (!trouble && had_trouble_) env_.probes->Hit(Probe::kShardTroubleEnded);
  had_trouble_ = trouble;
  if (was_restoring_ && shard.restoring_count() == 0) {
    env_.probes->Hit(Probe::kShardRestoredByReplicas);
    was_restoring_ = false;
  }
  TakeNotices();
  uint64_t open_bytes = 0;
  for (const auto& open : shard.OpenSegments()) open_bytes += open.open_bytes;
  const uint64_t open_bytes_max = env_.settings->OpenBytesBound(was_ever_restoring_);
  if (open_bytes > open_bytes_max) {
    env_.checker->Violate(absl::StrCat("shard ", index_, " holds ", open_bytes,
                                       " bytes of open pushes, wanted ", open_bytes_max,
                                       " at most"));
  }
  // Every byte on the disk is known to the shard, except for its catalog and a temporary file.
  if (trouble) return;
  const uint64_t used = disk_->used_bytes();
  const uint64_t known = state.log_bytes + state.snapshot_bytes;
  if (used > known + kUnknownBytesMax) {
    env_.checker->Violate(
        absl::StrCat("shard ", index_, "'s disk has ", used, " bytes, of which it knows ", known));
  }
}

}  // namespace longwave::sim
