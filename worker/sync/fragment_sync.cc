#include "worker/sync/fragment_sync.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "worker/sync/stopwatch.h"

namespace longwave {
namespace {

// How long one wait for an update lasts before `stopped` is asked again.
constexpr absl::Duration kPatience = absl::Milliseconds(50);

}  // namespace

absl::Status FragmentSync::Post(SegmentPush push) {
  Stopwatch stopwatch(&seconds_.sending);
  LONGWAVE_RETURN_IF_ERROR(exchange_->Post(std::move(push)));
  ++awaited_;
  return absl::OkStatus();
}

absl::StatusOr<SyncPipeline::Push> FragmentSync::Encode(uint32_t segment) {
  Stopwatch stopwatch(&seconds_.encoding);
  return pipeline_->Encode(segment);
}

absl::Status FragmentSync::Send(uint32_t round, uint32_t fragment, double learning_rate,
                                uint32_t epoch, uint64_t weight,
                                const BeforePosting& before_posting) {
  round_ = round;
  missing_.clear();
  unknown_fates_ = late_ = 0;
  {
    Stopwatch stopwatch(&seconds_.encoding);
    LONGWAVE_RETURN_IF_ERROR(pipeline_->BeginFragment(round, fragment, learning_rate));
  }
  std::vector<SegmentPush> held;  // until before_posting has seen them all
  for (const uint32_t s : order_) {
    if (s % pipeline_->fragment_count() != fragment) continue;
    LONGWAVE_ASSIGN_OR_RETURN(SyncPipeline::Push encoded, Encode(s));
    SegmentPush push = {.epoch = epoch,
                        .round = round,
                        .segment = s,
                        .payload = std::move(encoded.payload),
                        .norm = encoded.norm,
                        .weight = weight,
                        .accounted = encoded.accounted};
    if (observer_ != nullptr) observer_->OnPush(push, pipeline_->report(s));
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

absl::Status FragmentSync::Apply(const std::function<bool()>& stopped) {
  while (awaited_ > 0) LONGWAVE_RETURN_IF_ERROR(ApplyNext(stopped));
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
  if (settled->fate == Fate::kLate) {
    ++late_;
    LONGWAVE_RETURN_IF_ERROR(pipeline_->Restore(settled->segment));
  }
  if (settled->fate == Fate::kUnknown) ++unknown_fates_;
  if (settled->gone) {
    missing_.push_back(settled->segment);
  } else {
    LONGWAVE_RETURN_IF_ERROR(pipeline_->Apply(settled->segment, settled->merged));
  }
  if (observer_ != nullptr) observer_->OnApplied(*settled);
  return absl::OkStatus();
}

}  // namespace longwave
