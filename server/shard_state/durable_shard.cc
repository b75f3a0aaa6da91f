// Events, and the commit that lets their effects out.
#include "server/shard_state/durable_shard.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/layout/segment_elements.h"
#include "common/wire/snapshot_payload.h"

namespace longwave {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

absl::StatusOr<std::unique_ptr<DurableShard>> DurableShard::Open(const DurableShardOptions& options,
                                                                 Layout layout,
                                                                 OpenStore open_store) {
  if (options.state_rounds == 0 || options.snapshot_rounds == 0 || options.model_arrays == 0 ||
      options.model_arrays > kSnapshotArraysMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard: state rounds ", options.state_rounds, ", snapshot rounds ",
                     options.snapshot_rounds, ", model arrays ", options.model_arrays,
                     "; wanted at least 1 of each and at most ", kSnapshotArraysMax, " arrays"));
  }
  std::unique_ptr<DurableShard> shard(
      new DurableShard(options, std::move(layout), std::move(open_store)));
  const absl::Status opened = shard->OpenAll();
  if (opened.ok()) return shard;
  // With an aggregator it was the folder, which somebody may mend.
  if (shard->aggregator_ == nullptr) return opened;
  shard->Fail(opened, absl::InfinitePast());
  return shard;
}

DurableShard::DurableShard(const DurableShardOptions& options, Layout layout, OpenStore open_store)
    : options_(options),
      layout_(std::move(layout)),
      open_store_(std::move(open_store)),
      told_epoch_(options_.told_epoch),
      asks_(kVerdictPatience, options_.snapshot_rounds),
      start_asks_(kVerdictPatience, options_.snapshot_rounds, /*of_start=*/true),
      durable_before_(options_.log_records == 0 ? 0 : options_.log_records + 1) {
  const auto segments = layout_.segments();
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (segments[i].shard != options_.aggregator.shard) continue;
    if (segment_count_++ == 0) first_segment_ = i;  // a shard's segments are one contiguous run
  }
}

uint64_t DurableShard::Step(const ShardEvent& event, absl::Time now) {
  current_event_ = ++events_;
  std::visit(Overloaded{[&](const PushArrived& push) { OnPush(push, now); },
                        [&](const PullArrived& pull) { OnPull(pull, now); },
                        [&](const MembershipChanged& change) { OnMembership(change, now); },
                        [&](const TimePassed&) { PassTime(now); },
                        [&](const FetchArrived& fetch) { OnFetch(fetch.header, now); },
                        [&](const SnapshotArrived& snapshot) { OnSnapshot(snapshot, now); },
                        [&](const VerdictsArrived& verdicts) { OnVerdicts(verdicts); }},
             event);
  current_event_ = 0;
  return events_;
}

std::vector<ShardEffect> DurableShard::Commit(absl::Time now) {
  if (reopen_at_ <= now) Reopen(now);
  if (trouble_.empty()) PassTime(now);
  if (store_ != nullptr) {
    absl::Status kept = append_failure_;
    if (kept.ok()) kept = store_->log().Sync();
    if (!kept.ok()) {
      TurnBack();
      Fail(kept, now);
    }
  }
  std::vector<ShardEffect> effects;
  effects.reserve(outgoing_.size());
  for (Outgoing& outgoing : outgoing_) Tell(std::move(outgoing), effects);
  outgoing_.clear();
  return effects;
}

absl::Time DurableShard::NextDue() const {
  if (!trouble_.empty()) return reopen_at_;
  if (!confirmed_.empty()) return absl::InfinitePast();  // for the next Tend
  absl::Time due = std::min({aggregator_->NextDue(), asks_.NextDue(), start_asks_.NextDue()});
  for (const auto& [segment, restore] : restores_) due = std::min(due, restore.NextDue());
  if (!restores_.empty() && joiners_decide_at_ != absl::InfinitePast()) {
    due = std::min(due, joiners_decide_at_);
  }
  return due;
}

void DurableShard::PassTime(absl::Time now) {
  if (!trouble_.empty()) return;
  if (aggregator_->NextDue() <= now) StepAggregator(TimePassed{}, false, now);
  const auto open_round = [this](uint32_t segment) { return OpenRound(segment); };
  if (start_asks_.NextDue() <= now) {
    std::vector<uint32_t> members = MembersOfStart();
    std::erase_if(members, [this](uint32_t worker) { return !greeted_.contains(worker); });
    for (const SnapshotAsks::Ask& ask : start_asks_.Due(members, open_round, now)) {
      EmitAsk(ask.worker, ask.segment, kRoundNever);
    }
  }
  if (asks_.NextDue() <= now) {
    for (const SnapshotAsks::Ask& ask : asks_.Due(MembersTakingPart(), open_round, now)) {
      EmitAsk(ask.worker, ask.segment, ask.round);
    }
  }
  if (!restores_.empty()) PursueRestores(now);
  // Of use as long as the aggregator alone has all that came after them.
  std::erase_if(restored_models_, [&](const auto& restored) {
    return restored.second.round + 1 < OpenRound(restored.first);
  });
}

void DurableShard::StepAggregator(const AggregatorEvent& event, bool is_push, absl::Time now) {
  for (AggregatorEffect& effect : aggregator_->Step(event, now)) {
    std::visit(Overloaded{[&](KeepPush& push) {
                            Keep(PushRecord{push.header, std::move(push.payload)});
                          },
                          [&](KeepMerged& merged) {
                            const FrameHeader header = merged.record.header;
                            NoteClosed(header, Keep(std::move(merged.record)));
                          },
                          [&](AskLog& ask) {
                            Emit(AnswerFromLog{ask.header}, ask.header.kind == FrameKind::kPush);
                          },
                          [&](AnswerPush& answer) { Emit(std::move(answer), is_push); },
                          [&](SendMerged& merged) { Emit(std::move(merged), is_push); },
                          [&](ContributionClipped& clipped) { Emit(std::move(clipped)); }},
               effect);
  }
}

std::optional<uint64_t> DurableShard::Keep(const LogRecord& record) {
  if (store_ == nullptr) return std::nullopt;
  const absl::StatusOr<uint64_t> sequence = store_->log().Append(record);
  if (sequence.ok()) return *sequence;
  // What the log does not take must not be told: the commit fails with it.
  append_failure_.Update(sequence.status());
  return std::nullopt;
}

void DurableShard::NoteClosed(const FrameHeader& merged, std::optional<uint64_t> sequence) {
  const uint32_t open_round = merged.round + 1;
  Progress& progress = ProgressOf(merged.segment);
  progress.open_round = open_round;
  if (!sequence.has_value()) return;  // the commit fails
  progress.replay_from = *sequence + 1;
  progress.state_is_due |= StateIsDueAfter(merged);
  if (!options_.can_catch_up) return;
  start_asks_.RoundOpened(merged.segment, open_round);
  if (LastModelRound(merged.segment, open_round) == open_round) WantModel(merged.segment);
  asks_.RoundOpened(merged.segment, open_round);
}

void DurableShard::OnPush(const PushArrived& push, absl::Time now) {
  if (!trouble_.empty()) return Answer(push.header, Outcome::kBusy, "");
  // It says nothing of where its sender stands: a copy can have waited in queues since before that
  // worker was told the round's update by the process before.
  if (RestoreOf(push.header) != nullptr) return Answer(push.header, Outcome::kBusy, "");
  StepAggregator(push, true, now);
}

void DurableShard::OnPull(const PullArrived& pull, absl::Time now) {
  if (!trouble_.empty()) return;
  if (HearForRestore(pull.header)) return PursueRestores(now);
  StepAggregator(pull, false, now);
}

void DurableShard::OnMembership(const MembershipChanged& change, absl::Time now) {
  if (change.membership.epoch <= membership_.epoch) return;  // one that was overtaken on its way
  membership_ = change.membership;
  if (first_epoch_ == 0) first_epoch_ = membership_.epoch;
  asks_.MembersChanged();
  start_asks_.MembersChanged();
  std::erase_if(greeted_, [this](uint32_t worker) {
    return std::ranges::find(membership_.members, worker, &Member::worker) ==
           membership_.members.end();
  });
  if (!trouble_.empty()) return;  // taken when the folder is open again
  KeepMembership();
  NoteMissingStarts();
  StepAggregator(change, false, now);
  if (restores_.empty()) return;
  // A member that joins may be another process now than the one that was heard; it is heard again.
  for (auto& [segment, restore] : restores_) restore.KeepOnly(MembersTakingPart());
  PursueRestores(now);
}

void DurableShard::KeepMembership() {
  told_epoch_ = std::max(told_epoch_, membership_.epoch);
  if (const auto sequence = Keep(MembershipRecord{membership_})) membership_sequence_ = *sequence;
}

void DurableShard::Greeted(uint32_t worker) {
  if (greeted_.insert(worker).second) start_asks_.MembersChanged();
}

void DurableShard::OnFetch(const FrameHeader& header, absl::Time now) {
  if (!trouble_.empty()) return;
  if (header.run != options_.aggregator.run || !IsMine(header.segment)) {
    return Answer(
        header, Outcome::kRejected,
        absl::StrFormat("fetch of worker %d: run %016x, segment %d; wanted run %016x and "
                        "segment %d to %d",
                        header.worker, header.run, header.segment, options_.aggregator.run,
                        first_segment_, first_segment_ + segment_count_ - 1));
  }
  if (!aggregator_->IsMember(header.worker)) return Answer(header, Outcome::kNotMember, "");
  // It is of no epoch, and may be a copy that is as old as a push can be; it comes again.
  if (RestoreOf(header) != nullptr) return PursueRestores(now);
  Emit(AnswerFetch{header});
}

void DurableShard::OnSnapshot(const SnapshotArrived& snapshot, absl::Time now) {
  const FrameHeader& header = snapshot.header;
  if (header.run != options_.aggregator.run || !IsMine(header.segment)) return;
  // Whatever it is good for: what its sender is to know is that it has come.
  Answer(header, Outcome::kAccepted, "");
  if (!trouble_.empty() || !aggregator_->IsMember(header.worker)) return;
  const bool is_start = header.round == 0;
  SnapshotAsks& asks = is_start ? start_asks_ : asks_;
  const auto restore = is_start ? restores_.end() : restores_.find(header.segment);
  // Of any member that has it: the one before may answer after another was asked.
  const bool restores = restore != restores_.end() && restore->second.choice().has_value() &&
                        restore->second.choice()->round == header.round;
  // What nobody asked for, or asks for no longer, is not even looked at.
  if (!restores && (restore != restores_.end() || !asks.IsOpen(header.segment))) return;

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
      return asks.Refuse({header.segment, header.round, header.worker}, OpenRound(header.segment));
    }
    restore->second.Refuse();
    return PursueRestores(now);
  }
  SnapshotAsks::Held held{header.segment, header.round,
                          SegmentStateHash(layout_, header.segment, *arrays), snapshot.payload};
  if (!restores) return asks.Hold(std::move(held), now);
  FinishRestore(header.segment, header.round, header.worker, std::move(held));
  HastenRestores(header.worker, now);
}

absl::Status DurableShard::CheckModelRound(const FrameHeader& header) const {
  const uint32_t open_round = OpenRound(header.segment);
  const auto latest = store_->snapshots().Latest(SnapshotKind::kModel, header.segment);
  const uint32_t above = latest.has_value() ? latest->key.round : 0;
  if (header.round > above && header.round <= open_round) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its round is ", header.round, ", wanted ", above + 1, " to ", open_round));
}

void DurableShard::OnVerdicts(const VerdictsArrived& verdicts) {
  for (const SnapshotVerdict& verdict : verdicts.verdicts) {
    if (!IsMine(verdict.segment)) continue;
    SnapshotAsks& asks = verdict.round == 0 ? start_asks_ : asks_;
    if (auto held = asks.Judge(verdict, OpenRound(verdict.segment))) {
      confirmed_.push_back(*std::move(held));
    } else if (!verdict.equal) {
      notices_.push_back(absl::StrCat("snapshot of segment ", verdict.segment, " before round ",
                                      verdict.round,
                                      " is not confirmed as what the members have: forgotten"));
    }
  }
}

FrameHeader DurableShard::FrameTo(uint32_t worker, FrameKind kind, uint32_t segment,
                                  uint32_t round) const {
  FrameHeader header;
  header.kind = kind;
  header.run = options_.aggregator.run;
  header.epoch = membership_.epoch;
  header.round = round;
  header.worker = worker;
  header.segment = segment;
  // What was known before the disk failed may have been forgotten since.
  if (IsMine(segment) && trouble_.empty()) header.weight = OpenRound(segment);
  return header;
}

void DurableShard::EmitAsk(uint32_t worker, uint32_t segment, uint32_t round) {
  Emit(AskSnapshot{worker, FrameTo(worker, FrameKind::kAsk, segment, round)});
}

AnswerPush DurableShard::AnswerTo(const FrameHeader& header, Outcome outcome,
                                  std::string reason) const {
  FrameHeader answer = FrameTo(header.worker, FrameKind::kAnswer, header.segment, header.round);
  answer.outcome = outcome;
  answer.contributions = static_cast<uint32_t>(header.kind);
  return {answer, std::move(reason)};
}

void DurableShard::Answer(const FrameHeader& header, Outcome outcome, std::string reason) {
  const bool is_push = header.kind == FrameKind::kPush;
  if (is_push && outcome == Outcome::kBusy) ++counted_.pushes_busy;
  Emit(AnswerTo(header, outcome, std::move(reason)), is_push);
}

void DurableShard::Emit(decltype(Outgoing::what) what, bool answers_push) {
  outgoing_.push_back({current_event_, answers_push, std::move(what)});
}

uint32_t DurableShard::OpenRound(uint32_t segment) const {
  return aggregator_ != nullptr ? aggregator_->open_round(segment) : ProgressOf(segment).open_round;
}

std::vector<SnapshotHash> DurableShard::UnconfirmedSnapshots() const {
  std::vector<SnapshotHash> hashes = asks_.Unconfirmed();
  for (const SnapshotHash& start : start_asks_.Unconfirmed()) hashes.push_back(start);
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
  state.open_round = OpenRound(first_segment_);
  state.newest_round = 0;
  for (uint32_t segment = first_segment_; IsMine(segment); ++segment) {
    state.open_round = std::min(state.open_round, OpenRound(segment));
    state.newest_round = std::max(state.newest_round, OpenRound(segment));
  }
  state.log_records = std::max<uint64_t>(durable_before_, 1) - 1;
  if (store_ != nullptr) {
    state.log_records = store_->log().durable_sequence() - 1;
    state.log_bytes = store_->log().file_bytes();
    state.snapshot_bytes = store_->snapshots().file_bytes();
  }
  return state;
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
