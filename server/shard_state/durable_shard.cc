// Events and commits.
#include "server/shard_state/durable_shard.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/layout/segment_elements.h"
#include "common/wire/snapshot_payload.h"

namespace longwave {

absl::StatusOr<std::unique_ptr<DurableShard>> DurableShard::Open(const DurableShardOptions& options,
                                                                 Layout layout,
                                                                 OpenStore open_store) {
  if (options.state_rounds == 0 || options.snapshot_rounds == 0 || options.model_arrays == 0 ||
      options.model_arrays > kSnapshotArraysMax) {
    return InvalidArgument("shard: state rounds ", options.state_rounds, ", snapshot rounds ",
                           options.snapshot_rounds, ", model arrays ", options.model_arrays,
                           "; wanted at least 1 of each and at most ", kSnapshotArraysMax,
                           " arrays");
  }
  std::unique_ptr<DurableShard> shard(
      new DurableShard(options, std::move(layout), std::move(open_store)));
  const absl::Status opened = shard->OpenAll();
  if (opened.ok()) return shard;
  // An aggregator exists, so the folder failed, and an operator may repair it.
  if (shard->aggregator_ == nullptr) return opened;
  shard->Fail(opened, absl::InfinitePast());
  return shard;
}

DurableShard::DurableShard(const DurableShardOptions& options, Layout layout, OpenStore open_store)
    : options_(options),
      layout_(std::move(layout)),
      open_store_(std::move(open_store)),
      told_epoch_(options_.told_epoch),
      rounds_wanted_(options_.rounds),
      requests_(kHashCheckPatience, options_.snapshot_rounds),
      start_requests_(kHashCheckPatience, options_.snapshot_rounds, /*of_start=*/true),
      restores_(&layout_, {.rounds = options_.rounds,
                           .needs_states = options_.can_catch_up,
                           .model_arrays = options_.model_arrays,
                           .join_patience = options_.join_patience}),
      durable_before_(options_.log_records == 0 ? 0 : options_.log_records + 1) {
  const auto segments = layout_.segments();
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (segments[i].shard != options_.aggregator.shard) continue;
    if (segment_count_++ == 0) first_segment_ = i;  // a shard's segments are one contiguous run
  }
}

uint64_t DurableShard::Step(const ShardEvent& event, absl::Time now) {
  current_event_ = ++events_;
  std::visit([&](const auto& each) { On(each, now); }, event);
  current_event_ = 0;
  request_.reset();
  return events_;
}

std::vector<ShardEffect> DurableShard::Commit(absl::Time now) {
  if (reopen_at_ <= now) Reopen(now);
  if (trouble_.empty()) PassTime(now);
  absl::Status kept = append_failure_;
  if (store_ != nullptr && kept.ok()) kept = store_->log().Sync();
  if (store_ != nullptr && !kept.ok()) {
    TurnBack();
    Fail(kept, now);
  } else if (trouble_.empty()) {
    NoteDurableRounds();
  }
  read_bytes_ = 0;
  for (ShardEffect& effect : std::exchange(effects_, {})) {
    const auto* const disk = std::get_if<AnswerFromDisk>(&effect.what);
    if (disk == nullptr) {
      effects_.push_back(std::move(effect));
      continue;
    }
    current_event_ = effect.event;
    request_ = effect.request;
    if (disk->asked.kind == FrameKind::kFetch) {
      AnswerFetch(disk->asked);
    } else {
      AnswerFromLog(disk->asked);
    }
  }
  current_event_ = 0;
  request_.reset();
  return std::exchange(effects_, {});
}

absl::Time DurableShard::NextDue() const {
  if (!trouble_.empty()) return reopen_at_;
  if (!held_back_.empty()) return absl::InfiniteFuture();
  if (!confirmed_.empty()) return absl::InfinitePast();  // Tend has work
  return std::min({aggregator_->NextDue(), requests_.NextDue(), start_requests_.NextDue(),
                   restores_.NextDue()});
}

void DurableShard::PassTime(absl::Time now) {
  if (!trouble().empty()) return;
  if (aggregator_->NextDue() <= now) StepAggregator(TimePassed{}, now);
  const auto open_round = [this](uint32_t segment) { return OpenRound(segment); };
  if (start_requests_.NextDue() <= now) {
    for (const SnapshotRequests::Request& request :
         start_requests_.TakeDue(Reachable(MembersOfStart()), open_round, now)) {
      EmitRequest({request.segment, kRoundNever, request.worker});
    }
  }
  if (requests_.NextDue() <= now) {
    for (const SnapshotRequests::Request& request :
         requests_.TakeDue(Reachable(MembersTakingPart()), open_round, now)) {
      EmitRequest(request);
    }
  }
  if (!restores_.empty()) PursueRestores(now);
  // A restored snapshot is useful only while the aggregator has all updates after it.
  std::erase_if(restored_models_, [&](const auto& restored) {
    return restored.second.round + 1 < OpenRound(restored.first);
  });
}

void DurableShard::StepAggregator(const AggregatorEvent& event, absl::Time now) {
  for (ShardEffect& effect : aggregator_->Step(event, now)) {
    rounds_have_moved_ = true;
    const auto* const keep = std::get_if<KeepRecord>(&effect.what);
    if (keep == nullptr) {
      Emit(std::move(effect.what));
      continue;
    }
    const std::optional<uint64_t> sequence = Keep(keep->record);
    if (const auto* const merged = std::get_if<MergedRecord>(&keep->record))
      NoteClosed(merged->header, sequence);
  }
}

std::optional<uint64_t> DurableShard::Keep(const LogRecord& record) {
  if (store_ == nullptr) return std::nullopt;
  const absl::StatusOr<uint64_t> sequence = store_->log().Append(record);
  if (sequence.ok()) return *sequence;
  // The commit fails too, so that no effect of the record leaves.
  append_failure_.Update(sequence.status());
  return std::nullopt;
}

void DurableShard::NoteClosed(const MergedFrame& merged, std::optional<uint64_t> sequence) {
  const uint32_t open_round = merged.round + 1;
  SegmentProgress& progress = ProgressOf(merged.segment);
  progress.open_round = open_round;
  // Members that push this round show that the log before it is whole, unless a restore brought the
  // segment here and did not get into the log.
  progress.may_be_short &= !append_failure_.ok();
  if (!sequence.has_value()) return;  // the commit fails
  progress.replay_from = *sequence + 1;
  progress.state_is_due |= StateIsDueAfter(merged, options_.state_rounds);
  if (!options_.can_catch_up) return;
  start_requests_.RoundOpened(merged.segment, open_round);
  if (LastModelRound(merged.segment, open_round) == open_round) WantModel(merged.segment);
  requests_.RoundOpened(merged.segment, open_round);
}

void DurableShard::On(const PushArrived& push, absl::Time now) {
  request_ = push.header;
  if (!trouble().empty()) return Answer(push.header, Outcome::kBusy, "");
  // A member without a first round may repeat a push of before it lost its replica.
  if (aggregator_->IsDue(push.header.worker, push.header.round)) NoteProgress(push.header);
  // A push says nothing else of its sender's progress: a copy may have waited in queues since
  // before an earlier process sent the round's update.
  if (IsHeldBack(push.header, now)) return Answer(push.header, Outcome::kBusy, "");
  StepAggregator(push, now);
}

void DurableShard::On(const PullArrived& pull, absl::Time now) {
  request_ = pull.header;
  if (!trouble().empty()) return Answer(pull.header, Outcome::kBusy, "");
  // A pull to this process says where its sender stands.
  const bool is_to_this = pull.header.epoch >= first_epoch_;
  if (is_to_this || aggregator_->IsDue(pull.header.worker, pull.header.round))
    NoteProgress(pull.header);
  if (is_to_this && pull.header.run == options_.aggregator.run &&
      restores_.Contains(pull.header.segment) && aggregator_->IsMember(pull.header.worker))
    restores_.Heard(pull.header.segment, pull.header.worker, pull.header.round);
  if (IsHeldBack(pull.header, now)) return Answer(pull.header, Outcome::kBusy, "");
  StepAggregator(pull, now);
}

void DurableShard::On(const MembershipChanged& change, absl::Time now) {
  if (change.membership.epoch <= membership_.epoch) return;  // overtaken by a newer one
  const std::vector<uint32_t> took_part = MembersTakingPart();
  membership_ = change.membership;
  if (first_epoch_ == 0) first_epoch_ = membership_.epoch;
  requests_.MembersChanged();
  start_requests_.MembersChanged();
  std::erase_if(greeted_, [this](uint32_t worker) {
    return std::ranges::find(membership_.members, worker, &Member::worker) ==
           membership_.members.end();
  });
  if (!trouble_.empty()) return;  // Recover takes it
  KeepMembership();
  NoteMissingStarts();
  StepAggregator(change, now);
  restores_.MembersChanged(took_part, MembersTakingPart(), now);
  if (!restores_.empty()) PursueRestores(now);
}

void DurableShard::KeepMembership() {
  told_epoch_ = std::max(told_epoch_, membership_.epoch);
  if (const auto sequence = Keep(MembershipRecord{membership_})) membership_sequence_ = *sequence;
}

void DurableShard::On(const FetchArrived& fetch, absl::Time now) {
  const FetchFrame& header = fetch.header;
  request_ = header;
  if (!trouble().empty()) return Answer(header, Outcome::kBusy, "");
  if (header.run != options_.aggregator.run || !IsMine(header.segment)) {
    return Answer(
        header, Outcome::kRejected,
        absl::StrFormat("fetch of worker %d: run %016x, segment %d; wanted run %016x and %s",
                        header.worker, header.run, header.segment, options_.aggregator.run,
                        segment_count_ == 0 ? "another shard, since this one has no segment"
                                            : absl::StrCat("segment ", first_segment_, " to ",
                                                           first_segment_ + segment_count_ - 1)));
  }
  if (!aggregator_->IsMember(header.worker)) return Answer(header, Outcome::kNotMember, "");
  // A fetch names no epoch and may be an old copy. The worker repeats it.
  if (header.round != kRoundNever) NoteProgress(header);
  if (IsHeldBack(header, now)) return Answer(header, Outcome::kBusy, "");
  Emit(AnswerFromDisk{header});
}

void DurableShard::On(const SnapshotArrived& snapshot, absl::Time now) {
  const SnapshotFrame& header = snapshot.header;
  if (header.run != options_.aggregator.run || !IsMine(header.segment)) return;
  // Every snapshot is answered, useful or not: its sender waits to know that the link is free.
  Answer(header, Outcome::kAccepted, "");
  if (!trouble_.empty() || !aggregator_->IsMember(header.worker)) return;
  if (aggregator_->IsDue(header.worker, header.round)) NoteProgress(header);
  const bool is_start = header.round == 0;
  SnapshotRequests& requests = is_start ? start_requests_ : requests_;
  const bool restores = !is_start && restores_.Expects(header.segment, header.worker, header.round);
  // Decoding is expensive: the shard drops snapshots without a request first.
  if (!restores && !requests.IsOpen(header.segment, header.worker)) return;

  const uint64_t elements = ElementCount(SegmentElements(layout_, header.segment));
  const auto arrays =
      DecodeSnapshotPayload(snapshot.payload.bytes(), options_.model_arrays, elements);
  absl::Status fits = arrays.status();
  if (fits.ok() && !restores && !is_start) fits = CheckModelRound(header);
  if (!fits.ok()) {
    if (std::has_single_bit(++snapshots_refused_)) {
      notices_.push_back(absl::StrCat("snapshot of segment ", header.segment, " from worker ",
                                      header.worker, ": ", fits.message(), " (", snapshots_refused_,
                                      " refused so far)"));
    }
    if (!restores) {
      return requests.Refuse({header.segment, header.round, header.worker},
                             OpenRound(header.segment));
    }
    restores_.Refuse(header.segment);
    return PursueRestores(now);
  }
  SnapshotRequests::Held held{header.segment, header.round,
                              SegmentStateHash(layout_, header.segment, *arrays), snapshot.payload};
  if (!restores) return requests.Hold(std::move(held), now);
  FinishRestore(header.segment, header.round, header.worker, std::move(held));
  restores_.Hasten(header.worker, now);
}

absl::Status DurableShard::CheckModelRound(const SnapshotFrame& header) const {
  const uint32_t open_round = OpenRound(header.segment);
  const auto latest = store_->snapshots().Latest(SnapshotKind::kModel, header.segment);
  const uint32_t above = latest.has_value() ? latest->key.round : 0;
  if (header.round > above && header.round <= open_round) return absl::OkStatus();
  return InvalidArgument("its round is ", header.round, ", wanted ", above + 1, " to ", open_round);
}

void DurableShard::On(const HashChecksArrived& hash_checks, absl::Time) {
  for (const HashCheck& check : hash_checks.hash_checks) {
    if (!IsMine(check.segment)) continue;
    SnapshotRequests& requests = check.round == 0 ? start_requests_ : requests_;
    if (auto held = requests.Judge(check, OpenRound(check.segment))) {
      confirmed_.push_back(*std::move(held));
    } else if (!check.equal) {
      notices_.push_back(
          absl::StrCat("snapshot of segment ", check.segment, " before round ", check.round,
                       " is not what the members' majority has: the shard drops it"));
    }
  }
}

template <typename Frame>
Frame DurableShard::FrameTo(uint32_t worker, uint32_t segment, uint32_t round) const {
  Frame frame{.run = options_.aggregator.run, .epoch = membership_.epoch, .round = round};
  frame.worker = worker;
  frame.segment = segment;
  // The shard may have forgotten earlier rounds when the disk failed.
  if (IsMine(segment) && trouble_.empty()) frame.open_round = OpenRound(segment);
  return frame;
}

void DurableShard::EmitRequest(const SnapshotRequests::Request& request) {
  const auto [segment, round, worker] = request;
  Emit(SendFrame{{worker},
                 SealFitting(FrameTo<RequestFrame>(worker, segment, round), Buffer()),
                 SendCause::kRequested});
}

void DurableShard::SendSnapshot(const FrameName& fetch, uint32_t round, Buffer payload) {
  absl::StatusOr<SealedFrame> frame =
      Seal(FrameTo<SnapshotFrame>(fetch.worker, fetch.segment, round), std::move(payload));
  if (!frame.ok()) return Answer(fetch, Outcome::kRejected, std::string(frame.status().message()));
  Emit(SendFrame{{fetch.worker}, *std::move(frame), SendCause::kRequested});
}

AnswerFrame DurableShard::AnswerTo(const FrameName& asked, Outcome outcome) const {
  auto answer = FrameTo<AnswerFrame>(asked.worker, asked.segment, asked.round);
  answer.outcome = outcome;
  answer.to = asked.kind;
  return answer;
}

void DurableShard::Answer(const FrameName& asked, Outcome outcome, std::string_view reason) {
  const bool is_push = asked.kind == FrameKind::kPush;
  if (is_push && outcome == Outcome::kBusy) ++counted_.pushes_busy;
  Emit(AnswerWith(AnswerTo(asked, outcome), reason));
}

void DurableShard::Emit(decltype(ShardEffect::what) what) {
  effects_.push_back({std::move(what), current_event_, request_});
}

uint32_t DurableShard::OpenRound(uint32_t segment) const {
  return aggregator_ != nullptr ? aggregator_->open_round(segment) : ProgressOf(segment).open_round;
}

std::vector<SnapshotHash> DurableShard::UnconfirmedSnapshots() const {
  std::vector<SnapshotHash> hashes = requests_.Unconfirmed();
  for (const SnapshotHash& start : start_requests_.Unconfirmed()) hashes.push_back(start);
  return hashes;
}

std::vector<uint32_t> DurableShard::MembersOfStart() const {
  std::vector<uint32_t> members;
  for (const Member& member : membership_.members) {
    if (!member.other_start) members.push_back(member.worker);
  }
  return members;
}

std::vector<uint32_t> DurableShard::MembersTakingPart() const {
  std::vector<uint32_t> live;
  for (const Member& member : membership_.members) {
    if (member.first_round != kRoundNever) live.push_back(member.worker);
  }
  return live;
}

ShardState DurableShard::state() const {
  ShardState state = counted_;
  if (aggregator_ != nullptr) Add(aggregator_->state(), state);
  state.open_round = durable_open_round_;
  state.newest_round = durable_newest_round_;
  state.log_records = std::max<uint64_t>(durable_before_, 1) - 1;
  if (store_ != nullptr) {
    state.log_records = store_->log().durable_sequence() - 1;
    state.log_bytes = store_->log().file_bytes();
    state.snapshot_bytes = store_->snapshots().file_bytes();
  }
  return state;
}

void DurableShard::NoteDurableRounds() {
  if (!std::exchange(rounds_have_moved_, false)) return;
  durable_open_round_ = kRoundNever;
  durable_newest_round_ = 0;
  for (uint32_t segment = first_segment_; IsMine(segment); ++segment) {
    durable_open_round_ = std::min(durable_open_round_, OpenRound(segment));
    durable_newest_round_ = std::max(durable_newest_round_, OpenRound(segment));
  }
}

void DurableShard::Add(const ShardState& counts, ShardState& to) {
  to.pushes_accepted += counts.pushes_accepted;
  to.pushes_duplicate += counts.pushes_duplicate;
  to.pushes_late += counts.pushes_late;
  to.pushes_rejected += counts.pushes_rejected;
  to.segments_closed += counts.segments_closed;
  to.pushes_busy += counts.pushes_busy;
  to.pushes_clipped += counts.pushes_clipped;
  to.closed_by_quorum += counts.closed_by_quorum;
}

std::vector<SegmentReport> DurableShard::OpenSegments() const {
  if (aggregator_ == nullptr) return {};
  return aggregator_->OpenSegments();
}

}  // namespace longwave
