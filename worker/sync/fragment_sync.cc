#include "worker/sync/fragment_sync.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "worker/sync/stopwatch.h"

namespace longwave {
namespace {

// How long one wait for an update lasts before `stopped` is asked again.
constexpr absl::Duration kPatience = absl::Milliseconds(50);

}  // namespace

absl::Status FragmentSync::Begin(uint32_t round, uint32_t fragment, double learning_rate) {
  round_ = round;
  resent_.clear();
  missing_.clear();
  unknown_fates_ = late_ = 0;
  return pipeline_->BeginFragment(round, fragment, learning_rate);
}

absl::Status FragmentSync::Post(SegmentPush push) {
  LONGWAVE_RETURN_IF_ERROR(exchange_->Post(std::move(push)));
  ++awaited_;
  return absl::OkStatus();
}

absl::Status FragmentSync::Send(uint32_t round, uint32_t fragment, double learning_rate,
                                uint32_t epoch, uint64_t weight,
                                const BeforePosting& before_posting) {
  Stopwatch stopwatch(&seconds_.encoding);
  LONGWAVE_RETURN_IF_ERROR(Begin(round, fragment, learning_rate));
  std::vector<SegmentPush> held;  // until before_posting has seen them all
  for (uint32_t s = fragment; s < segment_count_; s += pipeline_->fragment_count()) {
    LONGWAVE_ASSIGN_OR_RETURN(SyncPipeline::Push encoded, pipeline_->Encode(s));
    SegmentPush push = {.epoch = epoch,
                        .round = round,
                        .segment = s,
                        .payload = std::move(encoded.payload),
                        .norm = encoded.norm,
                        .weight = weight};
    if (before_posting != nullptr) {
      held.push_back(std::move(push));
    } else {
      LONGWAVE_RETURN_IF_ERROR(Post(std::move(push)));
    }
  }
  if (before_posting != nullptr) LONGWAVE_RETURN_IF_ERROR(before_posting(held));
  for (SegmentPush& push : held) LONGWAVE_RETURN_IF_ERROR(Post(std::move(push)));
  return absl::OkStatus();
}

absl::Status FragmentSync::Resend(uint32_t round, uint32_t fragment, double learning_rate,
                                  std::vector<SegmentPush> pushes) {
  const uint32_t fragments = pipeline_->fragment_count();
  std::vector<uint32_t> segments;
  for (const SegmentPush& push : pushes) {
    if (push.round != round) {
      return absl::InvalidArgumentError(
          absl::StrCat("got a push of round ", push.round, " to be sent again in round ", round));
    }
    segments.push_back(push.segment);
  }
  std::vector<uint32_t> wanted;
  for (uint32_t s = fragment; s < segment_count_; s += fragments) wanted.push_back(s);
  std::sort(segments.begin(), segments.end());
  if (segments != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("got pushes to segments ",
                                                   absl::StrJoin(segments, ", "),
                                                   " to be sent again, wanted those of fragment ",
                                                   fragment, ": ", absl::StrJoin(wanted, ", ")));
  }
  LONGWAVE_RETURN_IF_ERROR(Begin(round, fragment, learning_rate));
  resent_ = pushes;
  for (SegmentPush& push : pushes) LONGWAVE_RETURN_IF_ERROR(Post(std::move(push)));
  return absl::OkStatus();
}

absl::Status FragmentSync::Apply(const std::function<bool()>& stopped) {
  while (awaited_ > 0) LONGWAVE_RETURN_IF_ERROR(ApplyNext(stopped));
  resent_.clear();
  if (!missing_.empty()) return absl::OkStatus();
  Stopwatch stopwatch(&seconds_.decoding);
  return pipeline_->EndFragment();
}

absl::Status FragmentSync::ApplyNext(const std::function<bool()>& stopped) {
  std::optional<Settled> settled;
  {
    Stopwatch stopwatch(&seconds_.waiting);
    while (!settled.has_value()) {
      if (stopped()) {
        return absl::CancelledError(absl::StrCat("stopped in the sync of round ", round_));
      }
      LONGWAVE_ASSIGN_OR_RETURN(settled, exchange_->Next(kPatience));
    }
  }
  Stopwatch stopwatch(&seconds_.decoding);
  --awaited_;
  if (settled->fate == Fate::kLate) LONGWAVE_RETURN_IF_ERROR(GiveBack(*settled));
  if (settled->fate == Fate::kUnknown) ++unknown_fates_;
  if (settled->gone) {
    missing_.push_back(settled->segment);
    return absl::OkStatus();
  }
  return pipeline_->Apply(settled->segment, settled->merged);
}

absl::Status FragmentSync::GiveBack(const Settled& settled) {
  ++late_;
  for (const SegmentPush& push : resent_) {
    if (push.segment != settled.segment) continue;
    return pipeline_->RestoreFrom(push.segment, push.round, push.payload);
  }
  return pipeline_->Restore(settled.segment);
}

}  // namespace longwave
