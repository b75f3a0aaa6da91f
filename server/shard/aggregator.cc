#include "server/shard/aggregator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "server/shard/aggregator_checks.h"

namespace longwave {

absl::StatusOr<Aggregator> Aggregator::Create(const AggregatorOptions& options, Layout layout) {
  LONGWAVE_RETURN_IF_ERROR(CheckOptions(options, layout));
  return Aggregator(options, std::move(layout));
}

Aggregator::Aggregator(const AggregatorOptions& options, Layout layout)
    : options_(options),
      layout_(std::make_unique<const Layout>(std::move(layout))),
      merger_(std::make_unique<Merger>(MergeOptionsOf(options), options.threads)) {
  fragment_count_ = FragmentCount(options.fragments, *layout_);
  const bool keeps_residual = KeepsResidual(MergeOptionsOf(options));
  const Grace grace(options.grace_min, options.grace_max);
  const auto segments = layout_->segments();
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (segments[i].shard != options.shard) continue;
    if (segments_.empty()) first_segment_ = i;  // the segments of a shard are contiguous
    SegmentRounds& state = segments_.emplace_back(grace);
    state.segment = i;
    state.tile_sizes = layout_->TileSizes(i);
    if (keeps_residual) state.residual.resize(segments[i].coefficient_count);
  }
}

std::vector<ShardEffect> Aggregator::Step(const AggregatorEvent& event, absl::Time now) {
  Effects effects;
  if (const auto* push = std::get_if<PushArrived>(&event)) OnPush(*push, now, effects);
  if (const auto* pull = std::get_if<PullArrived>(&event)) OnPull(pull->header, effects);
  if (const auto* change = std::get_if<MembershipChanged>(&event)) {
    OnMembership(change->membership, now, effects);
  }
  if (std::holds_alternative<TimePassed>(event)) OnTimePassed(now, effects);
  return effects;
}

void Aggregator::OnPush(const PushArrived& push, absl::Time now, Effects& effects) {
  const PushFrame& header = push.header;
  if (const std::string reason = Misaddressed(header); !reason.empty()) {
    return Answer(header, Outcome::kRejected, reason, effects, Rejection::kAddress);
  }
  const Member* const member = FindMember(header.worker);
  if (member == nullptr) return Answer(header, Outcome::kNotMember, "", effects);

  SegmentRounds& segment = StateOf(header.segment);
  const bool had_missed = !segment.missed.empty() && segment.missed.erase(header.worker) > 0;
  if (header.round < segment.open_round) {
    return OnClosedPush(segment, header, had_missed, now, effects);
  }
  if (header.round > segment.open_round) {
    // A member that joins again may be ahead of a segment that was restored in its absence.
    if (!IsDue(header.worker, header.round))
      return Answer(header, Outcome::kNotMember, "", effects);
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("push of ", PlaceOf(header), ": wanted round ", segment.open_round,
                               ", which is open"),
                  effects, Rejection::kRound);
  }
  if (options_.rounds != 0 && header.round >= options_.rounds) {
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("push of ", PlaceOf(header), ": wanted one of the run's ",
                               options_.rounds, " rounds"),
                  effects, Rejection::kRound);
  }
  if (const auto known = segment.accepted.find(header.worker); known != segment.accepted.end()) {
    return AnswerDuplicate(header, known->second.crc, effects);
  }
  if (header.round < member->first_round) {
    return Answer(header, Outcome::kNotMember, "", effects);
  }
  if (const auto newest = segment.newest.find(header.worker); header.accounted != 0 &&
                                                              newest != segment.newest.end() &&
                                                              newest->second >= header.accounted) {
    return Answer(
        header, Outcome::kRejected,
        absl::StrCat("push of ", PlaceOf(header), ": its residual accounts for ", header.accounted,
                     " rounds, wanted at least ", newest->second + 1,
                     ", as a push of the round before is merged: the worker's folder is a "
                     "copy of an older time, which is to be set aside"),
        effects, Rejection::kRound);
  }
  if (header.weight < 1 || header.weight > options_.weight_max) {
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("push of ", PlaceOf(header), ": weight ", header.weight,
                               ", wanted 1 to ", options_.weight_max),
                  effects, Rejection::kWeight);
  }
  if (IsBusyFor(segment, push.payload.size())) {
    return Answer(header, Outcome::kBusy, "", effects);
  }
  const std::span<const std::byte> payload = push.payload.bytes();
  auto layout = CheckPushPayload(options_.up, segment.tile_sizes, payload, segment.formats);
  absl::Status fits = layout.status();
  const Rejection rejection = fits.ok() ? Rejection::kNorm : Rejection::kPayload;
  if (fits.ok()) fits = CheckPushNorm(header.norm, options_.clip > 0, **layout, payload);
  if (!fits.ok()) {
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("push of ", PlaceOf(header), ": ", fits.message()), effects,
                  rejection);
  }
  Accept(segment, header, *std::move(layout), push.payload);
  segment.last_push = now;
  if (options_.logs) effects.push_back({KeepRecord{PushRecord{header, push.payload}}});
  Answer(header, Outcome::kAccepted, "", effects);
  CloseIfComplete(segment, now, effects);
}

void Aggregator::OnClosedPush(SegmentRounds& segment, const PushFrame& header, bool had_missed,
                              absl::Time now, Effects& effects) {
  if (!segment.closed || segment.closed->header.round != header.round) {
    if (options_.logs) {
      effects.push_back({AnswerFromDisk{header}});
    } else {
      Answer(header, Outcome::kCompacted, "", effects);
    }
    return;
  }
  const auto& contributors = segment.closed->contributors;
  const auto place =
      std::ranges::lower_bound(contributors, header.worker, {}, &ClosedSegment::Push::worker);
  if (place != contributors.end() && place->worker == header.worker) {
    AnswerDuplicate(header, place->crc, effects);
  } else {
    // The round's grace was this much too short. Repetitions of the push say nothing about the
    // grace.
    if (had_missed && segment.closed_quorum_at != absl::InfiniteFuture()) {
      segment.grace.Extend(now - segment.closed_quorum_at);
      due_.reset();
    }
    Answer(header, Outcome::kLate, "", effects);
  }
  SendAgain(segment, header, effects);
}

void Aggregator::OnPull(const PullFrame& header, Effects& effects) {
  if (const std::string reason = Misaddressed(header); !reason.empty()) {
    return Answer(header, Outcome::kRejected, reason, effects);
  }
  if (!IsMember(header.worker)) return Answer(header, Outcome::kNotMember, "", effects);
  const SegmentRounds& segment = StateOf(header.segment);
  if (header.round > segment.open_round) {
    // As for a push.
    if (!IsDue(header.worker, header.round))
      return Answer(header, Outcome::kNotMember, "", effects);
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("pull of ", PlaceOf(header), ": wanted round ", segment.open_round,
                               " or before"),
                  effects);
  }
  if (header.round == segment.open_round) return;
  if (segment.closed && segment.closed->header.round == header.round) {
    return SendAgain(segment, header, effects);
  }
  if (!options_.logs) return Answer(header, Outcome::kCompacted, "", effects);
  effects.push_back({AnswerFromDisk{header}});
}

void Aggregator::OnMembership(const Membership& membership, absl::Time now, Effects& effects) {
  if (membership.epoch <= membership_.epoch) return;  // overtaken on its way
  SetMembership(membership);
  for (SegmentRounds& segment : segments_) CloseIfComplete(segment, now, effects);
}

void Aggregator::OnTimePassed(absl::Time now, Effects& effects) {
  restored_ = false;
  for (SegmentRounds& segment : segments_) CloseIfComplete(segment, now, effects);
}

absl::Time Aggregator::NextDue() const {
  if (restored_) return absl::InfinitePast();
  if (options_.quorum >= 1) return absl::InfiniteFuture();
  if (due_.has_value()) return *due_;
  due_ = absl::InfiniteFuture();
  for (const SegmentRounds& segment : segments_) {
    due_ = std::min(*due_, segment.quorum_at + segment.grace.current());
  }
  return *due_;
}

void Aggregator::SetMembership(const Membership& membership) {
  membership_ = membership;
  member_places_.clear();
  first_rounds_.clear();
  for (const Member& member : membership_.members) {
    member_places_.emplace(member.worker, static_cast<uint32_t>(member_places_.size()));
    first_rounds_.push_back(member.first_round);
  }
  std::ranges::sort(first_rounds_);
  for (SegmentRounds& segment : segments_) {
    UpdateStrangers(segment);
    std::erase_if(segment.missed,
                  [&](const auto& missed) { return !IsDue(missed.first, segment.open_round); });
  }
}

AnswerFrame Aggregator::AnswerTo(const FrameName& asked, Outcome outcome) {
  if (asked.kind == FrameKind::kPush) {
    counts_.pushes_accepted += outcome == Outcome::kAccepted;
    counts_.pushes_duplicate += outcome == Outcome::kDuplicate;
    counts_.pushes_late += outcome == Outcome::kLate;
    counts_.pushes_rejected += outcome == Outcome::kRejected;
    counts_.pushes_busy += outcome == Outcome::kBusy;
  }
  return {.outcome = outcome,
          .run = options_.run,
          .epoch = membership_.epoch,
          .round = asked.round,
          .worker = asked.worker,
          .segment = asked.segment,
          .open_round = OwnsSegment(asked.segment) ? open_round(asked.segment) : 0,
          .to = asked.kind};
}

void Aggregator::AnswerDuplicate(const PushFrame& push, uint32_t held_crc, Effects& effects) {
  AnswerFrame answer = AnswerTo(push, Outcome::kDuplicate);
  answer.held_crc = held_crc;
  effects.push_back({AnswerWith(answer, "")});
}

void Aggregator::Answer(const FrameName& asked, Outcome outcome, std::string_view reason,
                        Effects& effects, Rejection rejection) {
  effects.push_back({AnswerWith(AnswerTo(asked, outcome), reason, rejection)});
}

void Aggregator::SendAgain(const SegmentRounds& segment, const FrameName& asked,
                           Effects& effects) const {
  effects.push_back({SendUpdate({asked.worker}, segment.closed->header, segment.closed->payload,
                                CauseOf(asked))});
}

void Aggregator::Accept(SegmentRounds& segment, const PushFrame& header,
                        std::shared_ptr<const PayloadLayout> layout, const Buffer& payload) {
  segment.accepted.emplace(header.worker, Accepted{header.weight, header.norm, header.payload_crc,
                                                   std::move(layout), payload});
  segment.newest[header.worker] = header.round;
  segment.open_bytes += payload.size();
  open_bytes_ += payload.size();
}

bool Aggregator::IsBusyFor(const SegmentRounds& segment, size_t bytes) const {
  if (options_.open_bytes_max == 0 || open_bytes_ + bytes <= options_.open_bytes_max) return false;
  // A segment that awaits its Restore closes nothing that would free memory.
  return std::ranges::any_of(segments_, [&](const SegmentRounds& other) {
    return !other.awaits_restore && PlaceInTime(other) < PlaceInTime(segment);
  });
}

std::string Aggregator::Misaddressed(const FrameName& frame) const {
  const auto what = [&] {
    return absl::StrCat(std::string(Name(frame.kind)), " of ", PlaceOf(frame));
  };
  if (frame.run != options_.run) {
    return absl::StrFormat("%s: run %016x, wanted %016x", what(), frame.run, options_.run);
  }
  if (!OwnsSegment(frame.segment)) {
    if (segments_.empty())
      return absl::StrCat(what(), ": wanted none, shard ", options_.shard, " has no segment");
    return absl::StrCat(what(), ": wanted a segment of shard ", options_.shard, ", ",
                        first_segment_, " to ", first_segment_ + segments_.size() - 1);
  }
  return "";
}

const Member* Aggregator::FindMember(uint32_t worker) const {
  const auto place = member_places_.find(worker);
  return place == member_places_.end() ? nullptr : &membership_.members[place->second];
}

bool Aggregator::IsDue(uint32_t worker, uint32_t round) const {
  const Member* const member = FindMember(worker);
  return member != nullptr && member->first_round <= round;
}

uint32_t Aggregator::DueCount(uint32_t round) const {
  return static_cast<uint32_t>(std::upper_bound(first_rounds_.begin(), first_rounds_.end(), round) -
                               first_rounds_.begin());
}

void Aggregator::UpdateStrangers(SegmentRounds& segment) const {
  segment.strangers = 0;
  for (const auto& [worker, push] : segment.accepted) {
    segment.strangers += !IsDue(worker, segment.open_round);
  }
}

std::vector<uint32_t> Aggregator::WaitingFor(const SegmentRounds& segment) const {
  std::vector<uint32_t> workers;
  for (const Member& member : membership_.members) {
    if (member.first_round > segment.open_round) continue;
    if (segment.accepted.contains(member.worker)) continue;
    const auto missed = segment.missed.find(member.worker);
    if (missed != segment.missed.end() && missed->second >= kMissedMax) continue;
    workers.push_back(member.worker);
  }
  return workers;
}

ShardState Aggregator::state() const {
  ShardState state = counts_;
  state.open_round = kRoundNever;  // without segments no round waits for this shard
  for (const SegmentRounds& segment : segments_) {
    state.open_round = std::min(state.open_round, segment.open_round);
    state.newest_round = std::max(state.newest_round, segment.open_round);
  }
  return state;
}

std::vector<SegmentReport> Aggregator::OpenSegments() const {
  std::vector<SegmentReport> open;
  for (const SegmentRounds& segment : segments_) {
    open.push_back({segment.segment, segment.open_round, WaitingFor(segment), segment.open_bytes});
  }
  return open;
}

double Aggregator::ResidualSquareSum(uint32_t segment) const {
  double sum = 0;
  for (const float e : StateOf(segment).residual) sum += double{e} * double{e};
  return sum;
}

Aggregator::OpenFigures Aggregator::open_figures() const {
  OpenFigures figures{.bytes = open_bytes_};
  const SegmentRounds* oldest = nullptr;
  for (const SegmentRounds& segment : segments_) {
    figures.segments += segment.accepted.empty() ? 0 : 1;
    if (oldest == nullptr || PlaceInTime(segment) < PlaceInTime(*oldest)) oldest = &segment;
  }
  if (oldest != nullptr) figures.waited_for = static_cast<uint32_t>(WaitingFor(*oldest).size());
  return figures;
}

}  // namespace longwave
