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
    changed_.wait(lock,
                  [&] { return stopping_ || (aggregator_.has_value() && !memberships_.empty()); });
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
    // Ended early by Wake, with all that wants attention.
    const absl::Duration wait = std::min(pacer_.NextDue() - MonotonicNow(), kWaitMax);
    LONGWAVE_ASSIGN_OR_RETURN(const std::optional<PeerFrame> frame,
                              router_->Receive(std::max(wait, absl::ZeroDuration())));
    if (attention_.load(std::memory_order_acquire) && !Attend()) return absl::OkStatus();
    NoteRefusals();
    if (frame.has_value()) Handle(*frame);
    SendDue();
  }
}

bool ShardDataPlane::Attend() {
  std::vector<Membership> memberships;
  {
    const std::lock_guard lock(mutex_);
    attention_.store(false, std::memory_order_relaxed);
    if (stopping_) return false;
    memberships = std::exchange(memberships_, {});
  }
  for (const Membership& membership : memberships) ApplyMembership(membership);
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

void ShardDataPlane::Begin(uint64_t run, Aggregator aggregator) {
  const std::lock_guard lock(mutex_);
  run_ = run;
  aggregator_ = std::move(aggregator);
  const std::vector<Aggregator::OpenSegment> segments = aggregator_->OpenSegments();
  first_segment_ = segments.front().segment;
  segment_count_ = static_cast<uint32_t>(segments.size());
  changed_.notify_all();
}

void ShardDataPlane::SetMembership(Membership membership) {
  const std::lock_guard lock(mutex_);
  memberships_.push_back(std::move(membership));
  attention_.store(true, std::memory_order_release);
  changed_.notify_all();
  router_->Wake();
}

void ShardDataPlane::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  attention_.store(true, std::memory_order_release);
  changed_.notify_all();
  router_->Wake();
}

ShardState ShardDataPlane::state() const {
  ShardState state;
  Ask([&] {
    if (aggregator_.has_value()) state = aggregator_->state();
    state.bytes_received = router_->counts().received;
    state.bytes_sent = router_->counts().sent;
  });
  return state;
}

std::vector<SegmentReport> ShardDataPlane::segments() const {
  std::vector<SegmentReport> reports;
  Ask([&] {
    if (!aggregator_.has_value()) return;
    for (Aggregator::OpenSegment& open : aggregator_->OpenSegments()) {
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
    workers_.try_emplace(member.worker, Worker{WorkerConnections(segment_count_), {}});
  }
  absl::erase_if(workers_, [&](const auto& known) {
    if (members.contains(known.first)) return false;
    for (const PeerId& peer : known.second.connections.peers()) router_->Forget(peer);
    pacer_.Forget(known.first);
    return true;
  });
  Perform(aggregator_->Step(MembershipChanged{membership}, MonotonicNow()), nullptr);
}

void ShardDataPlane::Handle(const PeerFrame& frame) {
  const FrameHeader& header = frame.frame.header;
  last_frame_ = MonotonicNow();
  Worker* const worker = header.run == run_ ? FindMember(header.worker) : nullptr;
  if (worker != nullptr) Hear(*worker, frame);
  switch (header.kind) {
    case FrameKind::kHello:
      AnswerHello(frame);
      break;
    case FrameKind::kPush:
      Perform(aggregator_->Step(PushArrived{header, frame.frame.payload}, last_frame_), &frame);
      break;
    case FrameKind::kPull:
      Perform(aggregator_->Step(PullArrived{header}, last_frame_), &frame);
      break;
    case FrameKind::kAnswer:
    case FrameKind::kMerged:
      if (!IsWorthALine(++rejected_)) break;
      Log(LogLevel::kWarning,
          absl::StrCat("dropped a frame that only shards send: ", std::string(Name(header.kind)),
                       ", worker ", header.worker));
  }
  // Strangers come and go: nobody asks what each of them sent.
  if (worker == nullptr) router_->Forget(frame.peer);
}

void ShardDataPlane::Hear(Worker& worker, const PeerFrame& frame) {
  const FrameHeader& header = frame.frame.header;
  std::optional<size_t> segment;
  const bool names_segment = header.kind == FrameKind::kPush || header.kind == FrameKind::kPull;
  if (names_segment && header.segment - first_segment_ < segment_count_)
    segment = header.segment - first_segment_;
  if (const std::optional<PeerId> gone = worker.connections.Hear(frame.peer, segment))
    RetireConnection(worker, *gone);
  if (header.kind == FrameKind::kHello) pacer_.SetRate(header.worker, header.weight);
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
  std::string reason;
  if (answer.run != run_) {
    reason = absl::StrFormat("hello of run %016x, this shard serves run %016x", answer.run, run_);
  } else if (FindMember(answer.worker) == nullptr) {
    reason =
        absl::StrCat("worker ", answer.worker, " is not a member of epoch ", membership_.epoch);
  }
  if (!reason.empty()) answer.outcome = Outcome::kRejected;
  Answer(frame, answer, reason);
}

void ShardDataPlane::Perform(std::vector<AggregatorEffect> effects, const PeerFrame* frame) {
  for (AggregatorEffect& effect : effects) {
    if (auto* const merged = std::get_if<SendMerged>(&effect)) {
      const absl::StatusOr<SealedFrame> sealed = Seal(merged->header, std::move(merged->payload));
      if (sealed.ok()) {
        SendMergedTo(merged->workers, *sealed);
      } else {
        NoteUnsent(merged->workers.front(), merged->header, sealed.status());
      }
      continue;
    }
    const auto& answer = std::get<AnswerPush>(effect);
    if (answer.header.outcome == Outcome::kRejected && IsWorthALine(++rejected_)) {
      Log(LogLevel::kWarning,
          absl::StrCat("rejected ", answer.reason, " (", rejected_, " frames so far)"));
    }
    if (frame != nullptr) Answer(*frame, answer.header, answer.reason);
  }
}

void ShardDataPlane::Answer(const PeerFrame& frame, const FrameHeader& header,
                            const std::string& reason) {
  const absl::StatusOr<SealedFrame> answer = Seal(header, BufferOf(reason));
  const absl::Status sent = answer.ok() ? router_->Send(frame.peer, *answer) : answer.status();
  if (!sent.ok()) return NoteUnsent(header.worker, header, sent);
  pacer_.Charge(header.worker, answer->wire_bytes(), last_frame_);
}

void ShardDataPlane::SendMergedTo(const std::vector<uint32_t>& workers, const SealedFrame& frame) {
  const absl::Time now = MonotonicNow();
  for (const uint32_t worker : workers) {
    if (pacer_.Admit(worker, frame, now)) SendByRoute(worker, frame, now);
  }
}

void ShardDataPlane::SendDue() {
  if (pacer_.NextDue() == absl::InfiniteFuture()) return;
  const absl::Time now = MonotonicNow();
  while (const std::optional<Pacer::Due> due = pacer_.Pop(now))
    SendByRoute(due->worker, due->frame, now);
}

void ShardDataPlane::SendByRoute(uint32_t index, const SealedFrame& frame, absl::Time now) {
  absl::Status sent = absl::NotFoundError("no frame of it has come yet");
  Worker* const worker = FindMember(index);
  while (worker != nullptr) {
    const PeerId* const route =
        worker->connections.RouteOf(frame.header().segment - first_segment_);
    if (route == nullptr) break;
    sent = router_->Send(*route, frame);
    if (!absl::IsNotFound(sent)) break;
    RetireConnection(*worker, PeerId(*route));  // by the next one, if it has another
  }
  if (sent.ok()) return pacer_.Charge(index, frame.wire_bytes(), now);
  // A worker whose connection is stuck keeps its frames here, the newest of each segment.
  if (absl::IsUnavailable(sent)) return pacer_.PutBack(index, frame, now + kRetryInterval);
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

void ShardDataPlane::NoteRefusals() {
  const uint64_t refused = router_->counts().frames_refused;
  // The first, and then each time that their number has doubled: a flood does not fill the disk.
  if (std::bit_width(refused) == std::bit_width(refusals_noted_)) return;
  refusals_noted_ = refused;
  Log(LogLevel::kWarning,
      absl::StrCat(refused, " frames refused so far, the last one: ", router_->last_refusal()));
}

}  // namespace longwave
