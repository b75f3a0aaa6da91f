// Conditions that hold between any two events.

#include "common/base/errors.h"
#include "worker/core/worker_core.h"

namespace longwave {

absl::Status WorkerCore::CheckInvariants() const {
  const auto broken = [this](auto... what) {
    return Internal("a worker that is ", Name(stage_), ", round ", round_, ", fragment ", fragment_,
                    ", step ", step_, ": ", what...);
  };
  const uint32_t fragments = plan_.fragment_count();
  if (round_ > rounds() || fragment_ > fragments)
    return broken("is beyond the run's ", rounds(), " rounds of ", fragments, " fragments");
  if (ready_round_ != kRoundNever && ready_round_ > rounds())
    return broken("is ready for round ", ready_round_, " of ", rounds());

  // Encoded segments are posted before any other event, and settled before the stage ends.
  const bool encodes = stage_ == Stage::kEncoding;
  if (!encodes && (!to_encode_.empty() || !held_.empty()))
    return broken("has ", to_encode_.size(), " segments to encode, ", held_.size(), " held back");
  const bool may_await = encodes || takes_settled() || (stage_ == Stage::kComputing && in_flight_);
  if (!may_await && awaited_ > 0) return broken("awaits ", awaited_, " pushes");
  if (fills_ && !encodes && stage_ != Stage::kFilling) return broken("fills a round");
  const bool may_load = stage_ == Stage::kRepairing || stage_ == Stage::kHearing;
  uint32_t posted = 0;
  for (uint32_t s = 0; s < SegmentCount(); ++s) {
    if (!may_load && segments_[s].state == SegmentStage::kAnew)
      return broken("makes segment ", s, " anew");
    if (segments_[s].state != SegmentStage::kPosted) continue;
    ++posted;
    const SegmentPush& push = segments_[s].push;
    if (push.segment != s) return broken("awaits segment ", push.segment, " as ", s);
    if (stage_ == Stage::kResuming) continue;
    if (push.round != round_) return broken("awaits a push of round ", push.round);
    if (!fills_ && s % fragments != fragment_)
      return broken("awaits segment ", s, ", which is of another fragment");
  }
  if (posted != awaited_) return broken("awaits ", awaited_, " pushes, of ", posted);

  // A training worker is level: fragments applied in this round are one round ahead of the others.
  const bool trains =
      stage_ == Stage::kComputing || (encodes && !fills_) || stage_ == Stage::kSyncing;
  for (uint32_t s = 0; s < SegmentCount() && trains && options_.can_catch_up; ++s) {
    const uint32_t here = options_.pipeline->anchor_round(s);
    const uint32_t wanted = round_ + (s % fragments < fragment_ ? 1 : 0);
    const bool is_being_applied = stage_ == Stage::kSyncing && s % fragments == fragment_;
    if (here != wanted && !(is_being_applied && here == wanted + 1))
      return broken("has the anchor of segment ", s, " before round ", here, ", not ", wanted);
  }
  return absl::OkStatus();
}

}  // namespace longwave
