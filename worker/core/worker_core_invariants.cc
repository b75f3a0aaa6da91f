// What holds between any two events, whatever happened.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/core/worker_core.h"

namespace longwave {

absl::Status WorkerCore::CheckInvariants() const {
  const auto broken = [this](auto... what) {
    return absl::InternalError(absl::StrCat("a worker that is ", Name(stage_), ", round ", round_,
                                            ", fragment ", fragment_, ", step ", step_, ": ",
                                            what...));
  };
  const uint32_t fragments = options_.plan.fragment_count();
  if (round_ > rounds() || fragment_ > fragments || reported_ > rounds())
    return broken("is beyond the run's ", rounds(), " rounds of ", fragments, " fragments");
  if (ready_round_ != kRoundNever && ready_round_ > rounds())
    return broken("is ready for round ", ready_round_, " of ", rounds());

  // What is encoded is posted before anything else happens, and settled before its stage ends.
  const bool encodes = stage_ == Stage::kEncoding;
  if (!encodes && (!to_encode_.empty() || !held_.empty()))
    return broken("has ", to_encode_.size(), " segments to encode, ", held_.size(), " held back");
  const bool may_await = encodes || takes_settled() || (stage_ == Stage::kComputing && in_flight_);
  if (!may_await && !unsettled_.empty()) return broken("awaits ", unsettled_.size(), " pushes");
  if (fills_ && !encodes && stage_ != Stage::kFilling) return broken("fills a round");
  for (const auto& [segment, push] : unsettled_) {
    if (push.segment != segment) return broken("awaits segment ", push.segment, " as ", segment);
    if (stage_ != Stage::kResuming && push.round != round_)
      return broken("awaits a push of round ", push.round);
    if (!fills_ && stage_ != Stage::kResuming && segment % fragments != fragment_)
      return broken("awaits segment ", segment, ", which is of another fragment");
  }

  // A segment that is made anew, in a repair or after another start, waits for its fetch alone.
  const bool may_load = stage_ == Stage::kRepairing || stage_ == Stage::kHearing;
  if (!may_load && !anew_.empty()) return broken("has ", anew_.size(), " segments to make anew");
  for (const uint32_t s : anew_) {
    if (heard_[s] || !fetching_[s]) return broken("makes segment ", s, " anew without a fetch");
  }

  // A worker that trains is level: the round's applied fragments are one ahead of the others.
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
