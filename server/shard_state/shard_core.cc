#include "server/shard_state/shard_core.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <optional>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"

namespace longwave {
namespace {

Buffer BufferOf(const std::string& text) {
  if (text.empty()) return Buffer();
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return Buffer(std::move(bytes));
}

// True for the first, the second, the fourth … occurrence, to limit repetitions in the log.
bool IsWorthALine(uint64_t count) { return std::has_single_bit(count); }

}  // namespace

ShardCore::ShardCore(uint64_t run, uint64_t incarnation, std::unique_ptr<DurableShard> shard,
                     Encryption encryption)
    : run_(run),
      incarnation_(incarnation),
      encryption_(encryption),
      shard_(std::move(shard)),
      pacer_(encryption) {}

void ShardCore::SetMembership(const Membership& membership, absl::Time now) {
  membership_ = membership;
  absl::flat_hash_set<uint32_t> members;
  for (const Member& member : membership.members) {
    members.insert(member.worker);
    workers_.try_emplace(member.worker, Worker{WorkerConnections(shard_->segment_count())});
  }
  absl::erase_if(workers_, [&](const auto& known) {
    if (members.contains(known.first)) return false;
    pacer_.Forget(known.first);
    return true;
  });
  shard_->Step(MembershipChanged{membership}, now);
}

void ShardCore::SetHashChecks(std::vector<HashCheck> hash_checks, absl::Time now) {
  shard_->Step(HashChecksArrived{std::move(hash_checks)}, now);
}

ShardCore::Taken ShardCore::Take(const PeerFrame& frame, absl::Time now) {
  const auto& [header, payload] = frame.frame;
  const FrameName name = header;
  ++batch_frames_;
  batch_bytes_ += payload.size();
  Worker* const worker = FindMember(name, name.worker);
  if (worker != nullptr) last_frame_ = now;
  Taken taken{.is_strangers = worker == nullptr};
  const uint32_t taken_before = worker == nullptr ? 0 : Hear(*worker, frame);
  const auto step = [&](const ShardEvent& event) {
    taken.event = shard_->Step(event, now);
    requests_[taken.event] = {frame.peer, name.kind};
  };
  if (const auto* hello = std::get_if<HelloFrame>(&header)) {
    AnswerHello(frame.peer, *hello, taken_before);
  } else if (const auto* push = std::get_if<PushFrame>(&header)) {
    step(PushArrived{*push, payload});
  } else if (const auto* pull = std::get_if<PullFrame>(&header)) {
    step(PullArrived{*pull});
  } else if (const auto* fetch = std::get_if<FetchFrame>(&header)) {
    step(FetchArrived{*fetch});
  } else if (const auto* snapshot = std::get_if<SnapshotFrame>(&header)) {
    step(SnapshotArrived{*snapshot, payload});
  } else {
    taken.is_of_shards = true;
    if (IsWorthALine(++rejected_))
      notices_.push_back(absl::StrCat("dropped a frame that only shards send: ",
                                      std::string(Name(name.kind)), ", worker ", name.worker));
  }
  return taken;
}

bool ShardCore::TakesMore() const {
  // Group commit gains nothing without a folder.
  return shard_->is_durable() && batch_frames_ < kBatchFrames && batch_bytes_ < kBatchBytes;
}

uint32_t ShardCore::Hear(Worker& worker, const PeerFrame& frame) {
  const FrameName name = frame.frame.header;
  std::optional<size_t> segment;
  const bool wants_segment = name.kind == FrameKind::kPush || name.kind == FrameKind::kPull ||
                             name.kind == FrameKind::kFetch;
  if (wants_segment && name.segment - shard_->first_segment() < shard_->segment_count())
    segment = name.segment - shard_->first_segment();
  const auto* const hello = std::get_if<HelloFrame>(&frame.frame.header);
  std::optional<WorkerConnections::Hello> said;
  if (hello != nullptr) said = HelloOf(*hello);
  const uint32_t taken = worker.connections.Hear(frame.peer, segment, said).taken;
  const size_t payload_bytes = frame.frame.payload.size();
  worker.traffic.received[name.kind] += {.frames = 1,
                                         .bytes = FrameWireBytes(payload_bytes, encryption_),
                                         .payload_bytes = payload_bytes};
  if (hello != nullptr) {
    worker.greeted = true;
    shard_->Greeted(hello->worker);
    pacer_.SetRate(hello->worker, hello->bytes_per_second_max);
  } else if (!worker.greeted) {
    RequestHello(worker, frame);
  }
  return taken - 1;
}

WorkerConnections::Hello ShardCore::HelloOf(const HelloFrame& hello) const {
  const auto [begin, end] = SegmentsOfRank(shard_->layout(), hello.node.rank, hello.node.ranks);
  const uint32_t first = shard_->first_segment();
  return {.number = hello.connection,
          .serves_begin = std::max(begin, first) - first,
          .serves_end = std::max(end, first) - first};
}

void ShardCore::RequestHello(Worker& worker, const PeerFrame& frame) {
  if (last_frame_ < worker.asked_hello + kHelloPatience) return;
  const uint32_t index = frame.frame.header.worker();
  // A worker that still says no hello is served without a limit.
  if (worker.asked_hello == absl::InfinitePast())
    pacer_.AwaitRate(index, last_frame_ + kHelloPatience);
  worker.asked_hello = last_frame_;
  Answer(
      frame.peer,
      RequestFrame{.run = run_, .epoch = membership_.epoch, .worker = index, .segment = kNoSegment},
      "");
}

void ShardCore::AnswerHello(const PeerId& peer, const HelloFrame& hello, uint32_t taken) {
  std::string reason;
  if (hello.run != run_) {
    reason = absl::StrFormat("hello of run %016x, this shard serves run %016x", hello.run, run_);
  } else if (!IsMember(hello.worker)) {
    reason = absl::StrCat("worker ", hello.worker, " is not a member of epoch ", membership_.epoch);
  }
  const WelcomeFrame answer{.outcome = reason.empty() ? Outcome::kAccepted : Outcome::kRejected,
                            .run = hello.run,
                            .frames_missing = hello.frames_sent - taken,
                            .frames_sent = hello.frames_sent,
                            .worker = hello.worker,
                            .incarnation = incarnation_};
  absl::StatusOr<SealedFrame> sealed = Seal(answer, BufferOf(reason));
  if (!sealed.ok()) return Drop(answer.worker, answer, sealed.status());
  welcomes_.push_back({peer, {answer.worker, *std::move(sealed)}});
}

std::vector<ShardEffect> ShardCore::Commit(absl::Time now) {
  std::vector<ShardEffect> effects = shard_->Commit(now);
  for (const auto& [worker, segment] : shard_->TakeUntold()) CountDropped(worker, segment);
  for (const ShardEffect& effect : effects) Tell(effect, now);
  if (!welcomes_.empty()) {
    // The answers to earlier frames come first. Updates and requests come after the hello's answer:
    // the worker ignores earlier ones.
    const auto routed = std::stable_partition(
        outgoing_.begin(), outgoing_.end(), [](const Outgoing& out) { return !out.peer.empty(); });
    outgoing_.insert(routed, std::make_move_iterator(welcomes_.begin()),
                     std::make_move_iterator(welcomes_.end()));
    welcomes_.clear();
  }
  requests_.clear();
  batch_frames_ = batch_bytes_ = 0;
  return effects;
}

void ShardCore::Tell(const ShardEffect& effect, absl::Time now) {
  const auto request = requests_.find(effect.event);
  const bool was_requested = request != requests_.end();
  if (const auto* answer = std::get_if<AnswerPush>(&effect.what)) {
    NoteRejected(*answer, now);
    if (was_requested) Answer(request->second.peer, answer->header, answer->reason);
  } else if (const auto* merged = std::get_if<SendMerged>(&effect.what)) {
    // A close follows from a push or from no request; a pull's update was requested.
    const bool was_pulled = was_requested && request->second.kind == FrameKind::kPull;
    SendTo(merged->workers, merged->header, merged->payload,
           was_pulled ? Pacer::Cause::kAsked : Pacer::Cause::kClose);
  } else if (const auto* snapshot = std::get_if<SendSnapshot>(&effect.what)) {
    SendTo({snapshot->worker}, snapshot->header, snapshot->payload, Pacer::Cause::kAsked);
  } else if (const auto* request = std::get_if<RequestSnapshot>(&effect.what)) {
    SendTo({request->worker}, request->header, Buffer(), Pacer::Cause::kAsked);
  } else {
    NoteClipped(std::get<ContributionClipped>(effect.what), now);
  }
}

void ShardCore::NoteRejected(const AnswerPush& answer, absl::Time now) {
  if (answer.header.outcome == Outcome::kRejected && IsWorthALine(++rejected_)) {
    notices_.push_back(
        absl::StrCat("rejected ", answer.reason, " (", rejected_, " frames so far)"));
  }
  if (answer.rejection == Rejection::kWeight || answer.rejection == Rejection::kNorm ||
      answer.rejection == Rejection::kPayload) {
    Complain(absl::StrCat("rejected ", answer.reason), now);
  }
}

void ShardCore::NoteClipped(const ContributionClipped& clipped, absl::Time now) {
  if (clipped.left_out) Complain(clipped.reason, now);
  const auto worker = workers_.find(clipped.worker);
  if (worker == workers_.end() || !IsWorthALine(++worker->second.clipped)) return;
  notices_.push_back(
      absl::StrCat(clipped.reason, " (", worker->second.clipped, " of this worker so far)"));
}

void ShardCore::Complain(std::string sentence, absl::Time now) {
  complaint_ = std::move(sentence);
  complained_at_ = now;
}

void ShardCore::Answer(const PeerId& peer, const FrameHeader& header, const std::string& reason) {
  absl::StatusOr<SealedFrame> frame = Seal(header, BufferOf(reason));
  if (!frame.ok()) return Drop(header.worker(), header, frame.status());
  outgoing_.push_back({peer, {header.worker(), *std::move(frame)}});
}

void ShardCore::SendTo(const std::vector<uint32_t>& workers, const FrameHeader& header,
                       Buffer payload, Pacer::Cause cause) {
  if (workers.empty()) return;
  const absl::StatusOr<SealedFrame> frame = Seal(header, std::move(payload));
  if (!frame.ok()) return Drop(workers.front(), header, frame.status());
  for (const uint32_t worker : workers) outgoing_.push_back({"", {worker, *frame, cause}});
}

void ShardCore::SendDue(absl::Time now, SendFrame send) {
  for (Outgoing& out : std::exchange(outgoing_, {})) {
    const bool waits =
        out.peer.empty() && !pacer_.Admit(out.what.worker, out.what.frame, now, out.what.cause);
    if (!waits) Send(out, now, send);
  }
  // Frames that wait for a hello leave after its answer: the worker ignores earlier ones.
  while (welcomes_.empty()) {
    std::optional<Pacer::Due> due = pacer_.Pop(now);
    if (!due.has_value()) break;
    Outgoing out{"", *std::move(due)};
    Send(out, now, send);
  }
  for (const auto& [worker, segment] : pacer_.TakeDropped()) CountDropped(worker, segment);
}

void ShardCore::CountDropped(uint32_t index, uint32_t segment) {
  const auto worker = workers_.find(index);
  if (worker == workers_.end()) return;
  WorkerConnections& connections = worker->second.connections;
  const PeerId* const route = connections.RouteOf(segment - shard_->first_segment());
  if (route != nullptr) ++connections.CountsOf(*route)->sent;
}

void ShardCore::Send(Outgoing& out, absl::Time now, SendFrame send) {
  auto& [index, frame, cause] = out.what;
  Worker* const worker = FindMember(frame.header(), index);
  PeerId peer;
  const absl::Status sent = Deliver(out, worker, send, peer);
  const bool waits = out.peer.empty() && absl::IsUnavailable(sent);
  WorkerConnections::Counts* const counts =
      worker == nullptr || waits ? nullptr : worker->connections.CountsOf(peer);
  if (counts != nullptr) ++counts->sent;  // dropped frames too
  if (sent.ok()) {
    pacer_.Charge(index, frame.wire_bytes(encryption_), now);
    if (worker == nullptr) return;
    worker->traffic.sent[frame.header().kind()] += {.frames = 1,
                                                    .bytes = frame.wire_bytes(encryption_),
                                                    .payload_bytes = frame.payload().size()};
  } else if (waits) {
    // Frames for a worker with a full connection wait here.
    pacer_.PutBack(index, std::move(frame), now + kRetryInterval, cause);
  } else {
    Drop(index, frame.header(), sent);
  }
}

absl::Status ShardCore::Deliver(Outgoing& out, Worker* worker, SendFrame send, PeerId& peer) {
  SealedFrame& frame = out.what.frame;
  peer = out.peer;
  if (!peer.empty()) {
    const auto* const welcome = std::get_if<WelcomeFrame>(&frame.header());
    const auto* const counts = worker == nullptr ? nullptr : worker->connections.CountsOf(peer);
    if (welcome != nullptr && counts != nullptr) {
      WelcomeFrame counted = *welcome;
      counted.shard_frames_sent = counts->sent;
      auto sealed = Seal(counted, frame.payload());
      if (!sealed.ok()) return sealed.status();
      frame = *std::move(sealed);
    }
    return send(peer, frame);
  }
  absl::Status sent = NotFound("no frame of it has come yet");
  while (worker != nullptr) {
    const WorkerConnections& connections = worker->connections;
    const FrameName name = frame.header();
    const uint32_t segment = name.segment - shard_->first_segment();
    const PeerId* const route = name.kind == FrameKind::kRequest ? connections.Newest(segment)
                                                                 : connections.RouteOf(segment);
    if (route == nullptr) break;
    peer = *route;
    sent = send(peer, frame);
    if (!absl::IsNotFound(sent)) break;
    worker->connections.Remove(peer);  // the loop tries the next connection
  }
  return sent;
}

// Dropping loses nothing: a worker that misses an update repeats its request.
void ShardCore::Drop(uint32_t worker, const FrameName& frame, const absl::Status& status) {
  if (!IsWorthALine(++unsent_)) return;
  notices_.push_back(absl::StrCat(std::string(Name(frame.kind)), " frame for worker ", worker,
                                  ", round ", frame.round, ", segment ", frame.segment,
                                  " was not sent: ", std::string(status.message()), " (", unsent_,
                                  " unsent so far)"));
}

std::vector<std::string> ShardCore::TakeNotices() {
  std::vector<std::string> notices = std::exchange(notices_, {});
  for (std::string& notice : shard_->TakeNotices()) notices.push_back(std::move(notice));
  return notices;
}

ShardHeartbeat ShardCore::Report(uint32_t known_epoch, absl::Time now) const {
  return {.known_epoch = shard_->knows_untold_epoch() ? kEpochUntold : known_epoch,
          .state = shard_->state(),
          .trouble = shard_->trouble(),
          .snapshots = shard_->UnconfirmedSnapshots(),
          .complaint = now < complained_at_ + kComplaintLife ? complaint_ : ""};
}

std::vector<WorkerLinkReport> ShardCore::links() const {
  std::vector<WorkerLinkReport> links;
  for (const auto& [index, worker] : workers_) {
    const Pacer::Waiting waiting = pacer_.WaitingFor(index);
    links.push_back({index, worker.connections.size(), pacer_.RateOf(index), waiting.frames,
                     waiting.bytes, worker.traffic});
  }
  std::ranges::sort(links, {}, &WorkerLinkReport::worker);
  return links;
}

// The member of this run. Null: no member, or a frame of another run.
ShardCore::Worker* ShardCore::FindMember(const FrameName& frame, uint32_t worker) {
  const auto found = frame.run == run_ ? workers_.find(worker) : workers_.end();
  return found == workers_.end() ? nullptr : &found->second;
}

}  // namespace longwave
