#include "server/service/shard_data_plane.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {
namespace {

Buffer BufferOf(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return std::byte(c); });
  return Buffer(std::move(bytes));
}

}  // namespace

absl::Status ShardDataPlane::Serve() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return stopping_ || (aggregator_.has_value() && !memberships_.empty()); });
  }
  for (;;) {
    // Ended early by Wake, with each membership and with Stop.
    LONGWAVE_ASSIGN_OR_RETURN(std::optional<PeerFrame> frame, router_->Receive(absl::Hours(1)));
    const std::lock_guard lock(mutex_);
    if (stopping_) return absl::OkStatus();
    ApplyMemberships();
    NoteRefusals();
    if (frame.has_value()) Handle(*std::move(frame));
    counts_ = router_->counts();
  }
}

void ShardDataPlane::Begin(uint64_t run, Aggregator aggregator) {
  const std::lock_guard lock(mutex_);
  run_ = run;
  aggregator_ = std::move(aggregator);
  changed_.notify_all();
}

void ShardDataPlane::SetMembership(Membership membership) {
  const std::lock_guard lock(mutex_);
  memberships_.push_back(std::move(membership));
  changed_.notify_all();
  router_->Wake();
}

void ShardDataPlane::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  router_->Wake();
}

ShardState ShardDataPlane::state() const {
  const std::lock_guard lock(mutex_);
  ShardState state = aggregator_.has_value() ? aggregator_->state() : ShardState();
  state.bytes_received = counts_.received;
  state.bytes_sent = counts_.sent;
  return state;
}

std::vector<SegmentReport> ShardDataPlane::segments() const {
  const std::lock_guard lock(mutex_);
  std::vector<SegmentReport> reports;
  if (!aggregator_.has_value()) return reports;
  for (Aggregator::OpenSegment& open : aggregator_->OpenSegments()) {
    reports.push_back({.segment = open.segment,
                       .open_round = open.open_round,
                       .waiting_for = std::move(open.waiting_for),
                       .open_bytes = open.open_bytes});
  }
  return reports;
}

absl::Time ShardDataPlane::last_frame() const {
  const std::lock_guard lock(mutex_);
  return last_frame_;
}

void ShardDataPlane::ApplyMemberships() {
  for (Membership& membership : std::exchange(memberships_, {})) {
    membership_ = membership;
    std::erase_if(routes_, [&](const auto& route) { return !IsMember(route.first); });
    Perform(aggregator_->Step(MembershipChanged{std::move(membership)}, MonotonicNow()), nullptr);
  }
}

void ShardDataPlane::Handle(PeerFrame frame) {
  const FrameHeader header = frame.frame.header;
  last_frame_ = MonotonicNow();
  if (header.run == run_ && IsMember(header.worker)) routes_[header.worker] = frame.peer;
  switch (header.kind) {
    case FrameKind::kHello:
      return AnswerHello(frame);
    case FrameKind::kPush: {
      Buffer payload = std::move(frame.frame.payload);
      return Perform(aggregator_->Step(PushArrived{header, std::move(payload)}, last_frame_),
                     &frame);
    }
    case FrameKind::kPull:
      return Perform(aggregator_->Step(PullArrived{header}, last_frame_), &frame);
    case FrameKind::kAnswer:
    case FrameKind::kMerged:
      Log(LogLevel::kWarning,
          absl::StrCat("dropped a frame that only shards send: ", std::string(Name(header.kind)),
                       ", worker ", header.worker));
  }
}

void ShardDataPlane::AnswerHello(const PeerFrame& frame) {
  FrameHeader answer = frame.frame.header;
  answer.kind = FrameKind::kAnswer;
  answer.outcome = Outcome::kAccepted;
  std::string reason;
  if (answer.run != run_) {
    reason = absl::StrFormat("hello of run %016x, this shard serves run %016x", answer.run, run_);
  } else if (!IsMember(answer.worker)) {
    reason =
        absl::StrCat("worker ", answer.worker, " is not a member of epoch ", membership_.epoch);
  }
  if (!reason.empty()) answer.outcome = Outcome::kRejected;
  SendTo(answer.worker, &frame, answer, BufferOf(reason));
}

void ShardDataPlane::Perform(std::vector<AggregatorEffect> effects, const PeerFrame* frame) {
  for (AggregatorEffect& effect : effects) {
    if (const auto* answer = std::get_if<AnswerPush>(&effect)) {
      if (answer->header.outcome == Outcome::kRejected) {
        Log(LogLevel::kWarning, absl::StrCat("rejected a push of worker ", answer->header.worker,
                                             ": ", answer->reason));
      }
      SendTo(answer->header.worker, frame, answer->header, BufferOf(answer->reason));
      continue;
    }
    const auto& merged = std::get<SendMerged>(effect);
    for (const uint32_t worker : merged.workers) {
      SendTo(worker, frame, merged.header, merged.payload);
    }
  }
}

void ShardDataPlane::SendTo(uint32_t worker, const PeerFrame* frame, const FrameHeader& header,
                            Buffer payload) {
  // Who asks is answered where it asked from, member or not.
  const PeerId* peer = nullptr;
  if (frame != nullptr && frame->frame.header.worker == worker) {
    peer = &frame->peer;
  } else if (const auto route = routes_.find(worker); route != routes_.end()) {
    peer = &route->second;
  }
  const absl::Status sent = peer == nullptr ? absl::NotFoundError("no frame of it has come yet")
                                            : router_->Send(*peer, header, std::move(payload));
  // Not an end: a worker that misses an answer asks again, from its new connection if it has one.
  if (!sent.ok()) {
    Log(LogLevel::kWarning,
        absl::StrCat(std::string(Name(header.kind)), " frame for worker ", worker, ", round ",
                     header.round, ", segment ", header.segment,
                     " was not sent: ", std::string(sent.message())));
  }
}

bool ShardDataPlane::IsMember(uint32_t worker) const {
  return std::any_of(membership_.members.begin(), membership_.members.end(),
                     [&](const Member& member) { return member.worker == worker; });
}

void ShardDataPlane::NoteRefusals() {
  const uint64_t refused = router_->counts().frames_refused;
  // The first, and then each time that their number has doubled: a flood does not fill the disk.
  if (std::bit_width(refused) == std::bit_width(counts_.frames_refused)) return;
  Log(LogLevel::kWarning,
      absl::StrCat(refused, " frames refused so far, the last one: ", router_->last_refusal()));
}

}  // namespace longwave
