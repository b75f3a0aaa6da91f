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

absl::Status FragmentSync::Send(uint32_t round, uint32_t fragment, double learning_rate,
                                uint32_t epoch, uint64_t weight) {
  Stopwatch stopwatch(&seconds_.encoding);
  round_ = round;
  LONGWAVE_RETURN_IF_ERROR(pipeline_->BeginFragment(round, fragment, learning_rate));
  for (uint32_t s = fragment; s < segment_count_; s += pipeline_->fragment_count()) {
    LONGWAVE_ASSIGN_OR_RETURN(SyncPipeline::Push push, pipeline_->Encode(s));
    LONGWAVE_RETURN_IF_ERROR(exchange_->Post({.epoch = epoch,
                                              .round = round,
                                              .segment = s,
                                              .payload = std::move(push.payload),
                                              .norm = push.norm,
                                              .weight = weight}));
    ++awaited_;
  }
  return absl::OkStatus();
}

absl::Status FragmentSync::Apply(const std::function<bool()>& stopped) {
  while (awaited_ > 0) LONGWAVE_RETURN_IF_ERROR(ApplyNext(stopped));
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
  if (!settled->accepted) LONGWAVE_RETURN_IF_ERROR(pipeline_->Restore(settled->segment));
  LONGWAVE_RETURN_IF_ERROR(pipeline_->Apply(settled->segment, settled->merged));
  --awaited_;
  return absl::OkStatus();
}

}  // namespace longwave
