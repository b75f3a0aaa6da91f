#include "server/service/shard_data_plane.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {
namespace {

constexpr absl::Duration kWaitMax = absl::Hours(1);
// Before a full send queue is tried again.
constexpr absl::Duration kRetryInterval = absl::Milliseconds(100);

Buffer BufferOf(const std::string& text) {
  if (text.empty()) return Buffer();
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return Buffer(std::move(bytes));
}

// True for the first, the second, the fourth … of something that a log should not repeat for ever.
bool IsWorthALine(uint64_t count) { return std::has_single_bit(count); }

}  // namespace

absl::Status ShardDataPlane::Serve() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || (shard_ != nullptr && !memberships_.empty()); });
    serving_ = true;
  }
  const absl::Status served = ServeFrames();
  const std::lock_guard lock(mutex_);
  serving_ = false;
  for (const auto& question : std::exchange(questions_, {})) question();
  changed_.notify_all();
  return served;
}

absl::Status ShardDataPlane::ServeFrames() {
  if (!Attend()) return absl::OkStatus();
  for (;;) {
    Settle();
    SendDue();
    // Ended early by Wake, with all that wants attention.
    const absl::Time due = std::min(pacer_.NextDue(), shard_->NextDue());
    const absl::Duration wait = std::min(due - MonotonicNow(), kWaitMax);
    LONGWAVE_ASSIGN_OR_RETURN(const std::optional<PeerFrame> frame,
                              router_->Receive(std::max(wait, absl::ZeroDuration())));
    if (attention_.load(std::memory_order_acquire) && !Attend()) return absl::OkStatus();
    NoteRefusals();
    if (!frame.has_value()) continue;
    LONGWAVE_ASSIGN_OR_RETURN(const bool goes_on, HandleBatch(*frame));
    if (!goes_on) return absl::OkStatus();
  }
}

absl::StatusOr<bool> ShardDataPlane::HandleBatch(const PeerFrame& first) {
  Handle(first);
  if (!shard_->is_durable()) return true;  // nothing is gained by waiting for more
  uint64_t bytes = first.frame.payload.size();
  for (size_t frames = 1; frames < kBatchFrames && bytes < kBatchBytes; ++frames) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::optional<PeerFrame> frame,
                              router_->Receive(absl::ZeroDuration()));
    if (attention_.load(std::memory_order_acquire) && !Attend()) return false;
    if (!frame.has_value()) break;
    bytes += frame->frame.payload.size();
    Handle(*frame);
  }
  return true;
}

bool ShardDataPlane::Attend() {
  std::vector<Membership> memberships;
  std::vector<SnapshotVerdict> verdicts;
  {
    const std::lock_guard lock(mutex_);
    attention_.store(false, std::memory_order_relaxed);
    if (stopping_) return false;
    memberships = std::exchange(memberships_, {});
    verdicts = std::exchange(verdicts_, {});
  }
  for (const Membership& membership : memberships) ApplyMembership(membership);
  if (!verdicts.empty()) shard_->Step(VerdictsArrived{std::move(verdicts)}, MonotonicNow());
  const std::lock_guard lock(mutex_);
  for (const auto& question : std::exchange(questions_, {})) question();
  changed_.notify_all();
  return true;
}

void ShardDataPlane::Ask(absl::FunctionRef<void()> read) const {
  std::unique_lock lock(mutex_);
  if (!serving_) return read();
  bool answered = false;
  questions_.emplace_back([&] {
    read();
    answered = true;
  });
  attention_.store(true, std::memory_order_release);
  router_->Wake();
  changed_.wait(lock, [&] { return answered; });
}

void ShardDataPlane::Begin(uint64_t run, uint64_t incarnation,
                           std::unique_ptr<DurableShard> shard) {
  const std::lock_guard lock(mutex_);
  run_ = run;
  incarnation_ = incarnation;
  shard_ = std::move(shard);
  if (metrics_ != nullptr) metrics_->SetSegments(shard_->first_segment(), shard_->segment_count());
  LogNotices();
  changed_.notify_all();
}

void ShardDataPlane::SetMembership(Membership membership) {
  // At once: as soon as the coordinator hears that this shard knows them, they connect.
  std::vector<AdmittedKeys::Member> keys;
  for (const Member& member : membership.members) {
    if (!member.data_key.empty()) keys.push_back({member.worker, member.data_key});
  }
  router_->SetAdmitted(keys);
  const std::lock_guard lock(mutex_);
  memberships_.push_back(std::move(membership));
  attention_.store(true, std::memory_order_release);
  changed_.notify_all();
  router_->Wake();
}

void ShardDataPlane::SetVerdicts(std::vector<SnapshotVerdict> verdicts) {
  const std::lock_guard lock(mutex_);
  verdicts_.insert(verdicts_.end(), verdicts.begin(), verdicts.end());
  attention_.store(true, std::memory_order_release);
  router_->Wake();
}

void ShardDataPlane::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  attention_.store(true, std::memory_order_release);
  changed_.notify_all();
  router_->Wake();
}

ShardDataPlane::Condition ShardDataPlane::condition() const {
  Condition condition;
  Ask([&] {
    if (shard_ != nullptr) {
      condition = {.state = shard_->state(),
                   .trouble = shard_->trouble(),
                   .knows_untold_epoch = shard_->knows_untold_epoch(),
                   .complaint = "",
                   .snapshots = shard_->UnconfirmedSnapshots()};
    }
    if (MonotonicNow() < complained_at_ + kComplaintLife) condition.complaint = complaint_;
    NoteDoor();
    condition.state.bytes_received = router_->counts().received;
    condition.state.bytes_sent = router_->counts().sent;
  });
  return condition;
}

std::vector<SegmentReport> ShardDataPlane::segments() const {
  std::vector<SegmentReport> reports;
  Ask([&] {
    if (shard_ == nullptr) return;
    for (Aggregator::OpenSegment& open : shard_->OpenSegments()) {
      reports.push_back({.segment = open.segment,
                         .open_round = open.open_round,
                         .waiting_for = std::move(open.waiting_for),
                         .open_bytes = open.open_bytes});
    }
  });
  return reports;
}

LinkTraffic ShardDataPlane::traffic() const {
  LinkTraffic traffic;
  Ask([&] { traffic = {router_->counts().sent_by_kind, router_->counts().received_by_kind}; });
  return traffic;
}

std::vector<WorkerLinkReport> ShardDataPlane::workers() const {
  std::vector<WorkerLinkReport> reports;
  Ask([&] {
    for (const auto& [index, worker] : workers_) {
      const std::vector<PeerId> peers = worker.connections.peers();
      const Pacer::Waiting waiting = pacer_.WaitingFor(index);
      WorkerLinkReport report{.worker = index,
                              .connections = static_cast<uint32_t>(peers.size()),
                              .bytes_per_second = pacer_.RateOf(index),
                              .frames_waiting = waiting.frames,
                              .bytes_waiting = waiting.bytes,
                              .traffic = worker.past};
      for (const PeerId& peer : peers) {
        const LinkCounts counts = router_->counts(peer);
        report.traffic += {counts.sent_by_kind, counts.received_by_kind};
      }
      reports.push_back(report);
    }
  });
  std::sort(reports.begin(), reports.end(),
            [](const auto& a, const auto& b) { return a.worker < b.worker; });
  return reports;
}

ShardFigures ShardDataPlane::figures() const {
  ShardFigures figures;
  Ask([&] {
    NoteDoor();
    figures.traffic = {router_->counts().sent_by_kind, router_->counts().received_by_kind};
    figures.frames_refused = router_->counts().frames_refused;
    figures.frames_unsent = unsent_;
    figures.epoch = membership_.epoch;
    figures.members = workers_.size();
    for (const auto& [index, worker] : workers_) {
      const Pacer::Waiting waiting = pacer_.WaitingFor(index);
      figures.connections += worker.connections.peers().size();
      figures.frames_queued += waiting.frames;
      figures.bytes_queued += waiting.bytes;
    }
    if (shard_ == nullptr) return;
    figures.state = shard_->state();
    figures.troubled = !shard_->trouble().empty();
    figures.restoring = shard_->restoring_count();
    figures.segments = shard_->segment_count();
    figures.states_written = shard_->snapshots_written().states;
    figures.models_written = shard_->snapshots_written().models;
    if (shard_->aggregator() != nullptr) figures.open = shard_->aggregator()->open_figures();
  });
  return figures;
}

absl::Time ShardDataPlane::last_frame() const {
  absl::Time last;
  Ask([&] { last = last_frame_; });
  return last;
}

void ShardDataPlane::ApplyMembership(const Membership& membership) {
  membership_ = membership;
  absl::flat_hash_set<uint32_t> members;
  for (const Member& member : membership.members) {
    members.insert(member.worker);
    workers_.try_emplace(member.worker, Worker{WorkerConnections(shard_->segment_count())});
  }
  absl::erase_if(workers_, [&](const auto& known) {
    if (members.contains(known.first)) return false;
    for (const PeerId& peer : known.second.connections.peers()) router_->Forget(peer);
    pacer_.Forget(known.first);
    return true;
  });
  shard_->Step(MembershipChanged{membership}, MonotonicNow());
}

void ShardDataPlane::Handle(const PeerFrame& frame) {
  const FrameHeader& header = frame.frame.header;
  last_frame_ = MonotonicNow();
  Worker* const worker = header.run == run_ ? FindMember(header.worker) : nullptr;
  if (worker != nullptr) Hear(*worker, frame);
  if (worker == nullptr && metrics_ != nullptr) metrics_->HeardStranger();
  const auto step = [&](const ShardEvent& event) {
    const uint64_t number = shard_->Step(event, last_frame_);
    asked_.push_back({number, frame.peer, header.kind, worker == nullptr});
  };
  switch (header.kind) {
    case FrameKind::kHello:
      AnswerHello(frame);
      break;
    case FrameKind::kPush:
      step(PushArrived{header, frame.frame.payload});
      break;
    case FrameKind::kPull:
      step(PullArrived{header});
      break;
    case FrameKind::kFetch:
      step(FetchArrived{header});
      break;
    case FrameKind::kSnapshot:
      step(SnapshotArrived{header, frame.frame.payload});
      break;
    case FrameKind::kAnswer:
    case FrameKind::kMerged:
    case FrameKind::kAsk:
      if (metrics_ != nullptr) metrics_->DroppedWrongKind();
      if (!IsWorthALine(++rejected_)) break;
      Log(LogLevel::kWarning,
          absl::StrCat("dropped a frame that only shards send: ", std::string(Name(header.kind)),
                       ", worker ", header.worker));
  }
  // Strangers come and go: nobody asks what each of them sent. Who has asked is still answered.
  if (worker == nullptr && (asked_.empty() || asked_.back().peer != frame.peer))
    router_->Forget(frame.peer);
}

void ShardDataPlane::Hear(Worker& worker, const PeerFrame& frame) {
  const FrameHeader& header = frame.frame.header;
  std::optional<size_t> segment;
  const bool wants_segment = header.kind == FrameKind::kPush || header.kind == FrameKind::kPull ||
                             header.kind == FrameKind::kFetch;
  if (wants_segment && header.segment - shard_->first_segment() < shard_->segment_count())
    segment = header.segment - shard_->first_segment();
  if (const std::optional<PeerId> gone = worker.connections.Hear(frame.peer, segment))
    RetireConnection(worker, *gone);
  if (header.kind == FrameKind::kHello) {
    worker.greeted = true;
    pacer_.SetRate(header.worker, header.weight);
  } else if (!worker.greeted) {
    AskHello(worker, frame);
  }
}

void ShardDataPlane::AskHello(Worker& worker, const PeerFrame& frame) {
  if (last_frame_ < worker.asked_hello + kHelloPatience) return;
  const uint32_t index = frame.frame.header.worker;
  // Who says none, though asked, is served without a limit.
  if (worker.asked_hello == absl::InfinitePast())
    pacer_.AwaitRate(index, last_frame_ + kHelloPatience);
  worker.asked_hello = last_frame_;
  FrameHeader ask;
  ask.kind = FrameKind::kAsk;
  ask.run = run_;
  ask.epoch = membership_.epoch;
  ask.worker = index;
  ask.segment = kNoSegment;
  Answer(frame.peer, ask, "");
}

void ShardDataPlane::AnswerHello(const PeerFrame& frame) {
  const FrameHeader& hello = frame.frame.header;
  FrameHeader answer;
  answer.kind = FrameKind::kAnswer;
  answer.outcome = Outcome::kAccepted;
  answer.run = hello.run;
  answer.epoch = membership_.epoch;
  answer.round = hello.round;
  answer.worker = hello.worker;
  answer.segment = hello.segment;
  answer.weight = incarnation_;
  answer.contributions = static_cast<uint32_t>(hello.kind);
  std::string reason;
  if (answer.run != run_) {
    reason = absl::StrFormat("hello of run %016x, this shard serves run %016x", answer.run, run_);
  } else if (FindMember(answer.worker) == nullptr) {
    reason =
        absl::StrCat("worker ", answer.worker, " is not a member of epoch ", membership_.epoch);
  }
  if (!reason.empty()) answer.outcome = Outcome::kRejected;
  Answer(frame.peer, answer, reason);
}

void ShardDataPlane::Settle() {
  for (ShardEffect& effect : shard_->Commit(MonotonicNow())) Perform(effect);
  for (const Asked& asked : asked_) {
    if (asked.is_stranger) router_->Forget(asked.peer);
  }
  asked_.clear();
  shard_->Tend(MonotonicNow());
  LogNotices();
  if (metrics_ != nullptr) MeasureResidual();
}

void ShardDataPlane::MeasureResidual() {
  const absl::Time begin = MonotonicNow();
  if (!metrics_->WantsResidual(begin) || shard_->aggregator() == nullptr) return;
  const double sum = shard_->aggregator()->ResidualSquareSum(metrics_->residual_segment());
  metrics_->TakeResidual(sum, begin, MonotonicNow());
}

void ShardDataPlane::Perform(ShardEffect& effect) {
  if (auto* const merged = std::get_if<SendMerged>(&effect.what)) {
    // A close follows from a push or from none; what a pull brings was asked for.
    if (metrics_ != nullptr) metrics_->Merged(merged->header, MonotonicNow());
    const Asked* const asked = FindAsked(effect.event);
    const bool was_pulled = asked != nullptr && asked->kind == FrameKind::kPull;
    return SendTo(merged->workers, merged->header, std::move(merged->payload),
                  was_pulled ? Pacer::Cause::kAsked : Pacer::Cause::kClose);
  }
  if (auto* const snapshot = std::get_if<SendSnapshot>(&effect.what)) {
    return SendTo({snapshot->worker}, snapshot->header, std::move(snapshot->payload),
                  Pacer::Cause::kAsked);
  }
  if (const auto* const ask = std::get_if<AskSnapshot>(&effect.what)) {
    return SendTo({ask->worker}, ask->header, Buffer(), Pacer::Cause::kAsked);
  }
  if (const auto* const clipped = std::get_if<ContributionClipped>(&effect.what)) {
    return NoteClipped(*clipped);
  }
  const auto& answer = std::get<AnswerPush>(effect.what);
  if (metrics_ != nullptr) metrics_->Answered(answer, MonotonicNow());
  if (answer.header.outcome == Outcome::kRejected && IsWorthALine(++rejected_)) {
    Log(LogLevel::kWarning,
        absl::StrCat("rejected ", answer.reason, " (", rejected_, " frames so far)"));
  }
  if (answer.rejection == Rejection::kWeight || answer.rejection == Rejection::kNorm ||
      answer.rejection == Rejection::kPayload) {
    Complain(absl::StrCat("rejected ", answer.reason));
  }
  if (const Asked* const asked = FindAsked(effect.event))
    Answer(asked->peer, answer.header, answer.reason);
}

void ShardDataPlane::NoteClipped(const ContributionClipped& clipped) {
  if (clipped.left_out) {
    if (metrics_ != nullptr) metrics_->LeftOut();
    Complain(clipped.reason);
  }
  Worker* const worker = FindMember(clipped.worker);
  if (worker == nullptr || !IsWorthALine(++worker->clipped)) return;
  Log(LogLevel::kWarning,
      absl::StrCat(clipped.reason, " (", worker->clipped, " of this worker so far)"));
}

void ShardDataPlane::Complain(std::string sentence) {
  complaint_ = std::move(sentence);
  complained_at_ = MonotonicNow();
}

const ShardDataPlane::Asked* ShardDataPlane::FindAsked(uint64_t event) const {
  const auto found =
      std::lower_bound(asked_.begin(), asked_.end(), event,
                       [](const Asked& a, uint64_t wanted) { return a.event < wanted; });
  return found == asked_.end() || found->event != event ? nullptr : &*found;
}

void ShardDataPlane::LogNotices() {
  for (const std::string& notice : shard_->TakeNotices()) Log(LogLevel::kWarning, notice);
}

void ShardDataPlane::Answer(const PeerId& peer, const FrameHeader& header,
                            const std::string& reason) {
  const absl::StatusOr<SealedFrame> answer = Seal(header, BufferOf(reason));
  const absl::Status sent = answer.ok() ? router_->Send(peer, *answer) : answer.status();
  if (!sent.ok()) return NoteUnsent(header.worker, header, sent);
  pacer_.Charge(header.worker, answer->wire_bytes(router_->encryption()), last_frame_);
}

void ShardDataPlane::SendTo(const std::vector<uint32_t>& workers, const FrameHeader& header,
                            Buffer payload, Pacer::Cause cause) {
  if (workers.empty()) return;
  const absl::StatusOr<SealedFrame> frame = Seal(header, std::move(payload));
  if (!frame.ok()) return NoteUnsent(workers.front(), header, frame.status());
  const absl::Time now = MonotonicNow();
  for (const uint32_t worker : workers) {
    if (pacer_.Admit(worker, *frame, now, cause)) SendByRoute(worker, *frame, cause, now);
  }
}

void ShardDataPlane::SendDue() {
  if (pacer_.NextDue() == absl::InfiniteFuture()) return;
  const absl::Time now = MonotonicNow();
  while (const std::optional<Pacer::Due> due = pacer_.Pop(now))
    SendByRoute(due->worker, due->frame, due->cause, now);
}

void ShardDataPlane::SendByRoute(uint32_t index, const SealedFrame& frame, Pacer::Cause cause,
                                 absl::Time now) {
  absl::Status sent = absl::NotFoundError("no frame of it has come yet");
  Worker* const worker = FindMember(index);
  while (worker != nullptr) {
    const PeerId* const route =
        worker->connections.RouteOf(frame.header().segment - shard_->first_segment());
    if (route == nullptr) break;
    sent = router_->Send(*route, frame);
    if (!absl::IsNotFound(sent)) break;
    RetireConnection(*worker, PeerId(*route));  // by the next one, if it has another
  }
  if (sent.ok()) return pacer_.Charge(index, frame.wire_bytes(router_->encryption()), now);
  // A worker whose connection is stuck keeps its frames here.
  if (absl::IsUnavailable(sent)) return pacer_.PutBack(index, frame, now + kRetryInterval, cause);
  NoteUnsent(index, frame.header(), sent);
}

void ShardDataPlane::RetireConnection(Worker& worker, const PeerId& peer) {
  const LinkCounts counts = router_->counts(peer);
  worker.past += {counts.sent_by_kind, counts.received_by_kind};
  router_->Forget(peer);
  worker.connections.Remove(peer);
}

// Not an end: a worker that misses something asks again, from its new connection if it has one.
void ShardDataPlane::NoteUnsent(uint32_t worker, const FrameHeader& header,
                                const absl::Status& status) {
  if (!IsWorthALine(++unsent_)) return;
  Log(LogLevel::kWarning, absl::StrCat(std::string(Name(header.kind)), " frame for worker ", worker,
                                       ", round ", header.round, ", segment ", header.segment,
                                       " was not sent: ", std::string(status.message()), " (",
                                       unsent_, " unsent so far)"));
}

ShardDataPlane::Worker* ShardDataPlane::FindMember(uint32_t worker) {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : &found->second;
}

void ShardDataPlane::NoteDoor() const {
  if (refusals_ == nullptr) return;
  const std::vector<Knock> knocks = router_->TakeKnocks();
  const DoorCounts door = router_->door();  // after them, so that it has counted each
  const LinkCounts& counts = router_->counts();
  const auto tell = [](Refusal reason, uint64_t count, const std::string& last) {
    Log(LogLevel::kWarning,
        absl::StrCat("refused (", std::string(Name(reason)), ", ", count, " so far): ", last));
  };
  const auto note = [&](Refusal reason, uint64_t count, const std::string& last) {
    if (refusals_->RaiseTo(reason, count)) tell(reason, count, last);
  };
  for (const Knock& knock : knocks) {
    const Refusal reason = knock.counted == &DoorCounts::keys     ? Refusal::kDataKey
                           : knock.counted == &DoorCounts::closed ? Refusal::kDataClosed
                                                                  : Refusal::kDataHandshake;
    if (!refusals_->MayName(reason, knock.peer, knock.sentence, MonotonicNow())) continue;
    refusals_->RaiseTo(reason, door.*knock.counted);
    tell(reason, door.*knock.counted, WithAddress(knock));
  }
  note(Refusal::kDataKey, door.keys, door.last_key);
  note(Refusal::kDataHandshake, door.handshakes, door.last_handshake);
  note(Refusal::kDataClosed, door.closed, door.last_closed);
  note(Refusal::kDataWorker, counts.frames_of_others, router_->last_refusal_of_others());
  note(Refusal::kDataFrame, counts.frames_refused - counts.frames_of_others,
       router_->last_refusal());
}

void ShardDataPlane::NoteRefusals() {
  const uint64_t refused = router_->counts().frames_refused;
  // The first, and then each time that their number has doubled: a flood does not fill the disk.
  if (std::bit_width(refused) == std::bit_width(refusals_noted_)) return;
  refusals_noted_ = refused;
  Log(LogLevel::kWarning,
      absl::StrCat(refused, " frames refused so far, the last one: ", router_->last_refusal()));
}

}  // namespace longwave
