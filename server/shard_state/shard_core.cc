#include "server/shard_state/shard_core.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longwave {

ShardCore::ShardCore(uint64_t run, uint64_t incarnation, std::unique_ptr<DurableShard> shard,
                     Encryption encryption)
    : run_(run),
      incarnation_(incarnation),
      shard_(std::move(shard)),
      links_(run, &shard_->layout(), shard_->first_segment(), shard_->segment_count(), encryption),
      outbox_(&links_, &notices_, encryption) {}

void ShardCore::SetMembership(const Membership& membership, absl::Time now) {
  membership_ = membership;
  for (const uint32_t gone : links_.SetMembers(membership.members)) {
    outbox_.pacer().Forget(gone);
    notices_.Forget(gone);
  }
  shard_->Step(MembershipChanged{membership}, now);
}

void ShardCore::SetHashChecks(std::vector<HashCheck> hash_checks, absl::Time now) {
  shard_->Step(HashChecksArrived{std::move(hash_checks)}, now);
}

ShardCore::Taken ShardCore::OnFrame(const PeerFrame& frame, absl::Time now) {
  const auto& [header, payload] = frame.frame;
  ++batch_frames_;
  batch_bytes_ += payload.size();
  const std::optional<uint32_t> earlier = links_.Hear(frame);
  Taken taken{.is_strangers = !earlier.has_value()};
  if (earlier.has_value()) {
    last_frame_ = now;
    NoteHello(frame, now);
  }
  const auto step = [&](const ShardEvent& event) {
    taken.event = shard_->Step(event, now);
    requests_[taken.event] = frame.peer;
  };
  if (const auto* hello = std::get_if<HelloFrame>(&header)) {
    AnswerHello(frame.peer, *hello, earlier.value_or(0));
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
    notices_.DroppedWrongKind(header);
  }
  return taken;
}

bool ShardCore::TakesMore() const {
  // Group commit gains nothing without a folder.
  return shard_->is_durable() && batch_frames_ < kBatchFrames && batch_bytes_ < kBatchBytes;
}

void ShardCore::NoteHello(const PeerFrame& frame, absl::Time now) {
  const uint32_t worker = frame.frame.header.worker();
  if (const auto* const hello = std::get_if<HelloFrame>(&frame.frame.header)) {
    shard_->Greeted(worker);
    return outbox_.pacer().SetRate(worker, hello->bytes_per_second_max);
  }
  const auto request = links_.TakeHelloRequest(worker, now);
  if (request == MemberLinks::HelloRequest::kNone) return;
  // A worker that still says no hello is served without a limit.
  if (request == MemberLinks::HelloRequest::kFirst)
    outbox_.pacer().AwaitRate(worker, now + MemberLinks::kHelloPatience);
  SendFrame send = AnswerWith(
      RequestFrame{
          .run = run_, .epoch = membership_.epoch, .worker = worker, .segment = kNoSegment},
      "");
  send.peer = frame.peer;
  outbox_.Add(std::move(send));
}

void ShardCore::AnswerHello(const PeerId& peer, const HelloFrame& hello, uint32_t earlier) {
  std::string reason;
  if (hello.run != run_) {
    reason = absl::StrFormat("hello of run %016x, this shard serves run %016x", hello.run, run_);
  } else if (!IsMember(hello.worker)) {
    reason = absl::StrCat("worker ", hello.worker, " is not a member of epoch ", membership_.epoch);
  }
  SendFrame send =
      AnswerWith(WelcomeFrame{.outcome = reason.empty() ? Outcome::kAccepted : Outcome::kRejected,
                              .run = hello.run,
                              .frames_missing = hello.frames_sent - earlier,
                              .frames_sent = hello.frames_sent,
                              .worker = hello.worker,
                              .incarnation = incarnation_},
                 reason);
  send.peer = peer;
  outbox_.AddWelcome(std::move(send));
}

std::vector<ShardEffect> ShardCore::Commit(absl::Time now) {
  std::vector<ShardEffect> effects = shard_->Commit(now);
  for (const auto& [worker, segment] : shard_->TakeDropped()) links_.CountDropped(worker, segment);
  for (ShardEffect& effect : effects) Dispatch(effect, now);
  outbox_.ReleaseWelcomes();
  requests_.clear();
  batch_frames_ = batch_bytes_ = 0;
  return effects;
}

void ShardCore::Dispatch(ShardEffect& effect, absl::Time now) {
  auto* const send = std::get_if<SendFrame>(&effect.what);
  if (send == nullptr) {
    const auto& clipped = std::get<ContributionClipped>(effect.what);
    return notices_.Clipped(clipped, IsMember(clipped.worker), now);
  }
  if (send->cause == SendCause::kAnswer) {
    notices_.Answered(*send, now);
    const auto request = requests_.find(effect.event);
    if (request == requests_.end()) return;
    send->peer = request->second;
  }
  outbox_.Add(*send);
}

std::vector<std::string> ShardCore::TakeNotices() {
  std::vector<std::string> notices = notices_.Take();
  for (std::string& notice : shard_->TakeNotices()) notices.push_back(std::move(notice));
  return notices;
}

ShardHeartbeat ShardCore::Report(uint32_t known_epoch, absl::Time now) const {
  return {.known_epoch = shard_->knows_untold_epoch() ? kEpochUntold : known_epoch,
          .state = shard_->state(),
          .trouble = shard_->trouble(),
          .snapshots = shard_->UnconfirmedSnapshots(),
          .complaint = notices_.ComplaintAt(now)};
}

std::vector<WorkerLinkReport> ShardCore::links() const {
  std::vector<WorkerLinkReport> links = links_.Report();
  for (WorkerLinkReport& link : links) {
    const Pacer::Waiting waiting = outbox_.pacer().WaitingFor(link.worker);
    link.bytes_per_second = outbox_.pacer().RateOf(link.worker);
    link.frames_waiting = waiting.frames;
    link.bytes_waiting = waiting.bytes;
  }
  return links;
}

}  // namespace longwave
