#include "worker/member/present_weights.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "kernels/ops.h"
#include "worker/member/control_plane.h"
#include "worker/member/member.h"
#include "worker/member/member_place.h"

namespace longwave {
namespace {

// A control plane that hides from the coordinator that this member is ready, and then makes the
// member stop.
class Onlooker final : public ControlPlane {
 public:
  Onlooker(ControlPlane* inner, const MemberParts& parts, absl::Time deadline)
      : inner_(*inner), parts_(parts), deadline_(deadline) {}

  // Is set once, at the first round at which all segments are.
  std::optional<absl::StatusOr<PresentWeights>>& found() { return found_; }

  Directive directive() const override { return inner_.directive(); }
  bool stop_requested() const override {
    return found_.has_value() || inner_.stop_requested() || MonotonicNow() > deadline_;
  }
  std::optional<absl::Status> ended() const override { return inner_.ended(); }
  absl::Duration coordinator_silence() const override { return inner_.coordinator_silence(); }
  void SetState(const WorkerState& state) override { inner_.SetState(state); }
  void Report(RoundReport) override {}
  void SetReadyRound(uint32_t round) override {
    if (round == kRoundNever || found_.has_value()) return;
    for (uint32_t s = 0; s < parts_.layout->segments().size(); ++s) {
      if (parts_.pipeline->anchor_round(s) != round) return;
    }
    // Now: the member applies what has arrived before it stops, so its anchor goes on.
    found_ = Weights(round);
  }
  std::optional<std::vector<std::string>> TakeNewEndpoints() override {
    return inner_.TakeNewEndpoints();
  }
  void Finish(const FinalReport&) override {}
  absl::StatusOr<bool> AwaitEnd(absl::Duration patience) override {
    return inner_.AwaitEnd(patience);
  }

 private:
  absl::StatusOr<PresentWeights> Weights(uint32_t rounds) const {
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<uint64_t> hashes, parts_.pipeline->Hashes());
    const float* const anchor = parts_.pipeline->anchor();
    return PresentWeights{.theta = {anchor, anchor + parts_.layout->parameter_count()},
                          .rounds = rounds,
                          .state_hash = CombineHashes(hashes)};
  }

  ControlPlane& inner_;
  const MemberParts& parts_;
  const absl::Time deadline_;
  std::optional<absl::StatusOr<PresentWeights>> found_;
};

absl::Status RunEnded() {
  return Aborted("the run has ended meanwhile, wanted one that trains until all segments are here");
}

}  // namespace

absl::StatusOr<PresentWeights> FetchPresentWeights(const RunConfig& config, const std::string& name,
                                                   const Manifest& manifest,
                                                   std::vector<float> start,
                                                   absl::Duration patience) {
  if (!CanCatchUp(config)) {
    return FailedPrecondition(
        "sync.update: with inner or local nobody who joins late has the weights, which are more "
        "than the merged updates; wanted the end of the run, which writes them");
  }
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* const ops, OpsFor(BackendKind::kCpu));
  StopSignal run_ended;
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<MemberPlace> place,
      MemberPlace::Open({.config = config, .name = name, .manifest = manifest}, &run_ended));
  LONGWAVE_RETURN_IF_ERROR(place->Join(start).status());
  std::vector<float> theta = start;
  theta.resize(place->layout().parameter_count());
  std::vector<float> gradient;
  if (config.sync.signal == SignalKind::kGradient) gradient.resize(theta.size());
  absl::StatusOr<MemberParts> parts =
      place->Begin({.theta = theta.data(),
                    .gradient = gradient.empty() ? nullptr : gradient.data(),
                    .ops = ops,
                    .initial_weights = [&start]() -> absl::StatusOr<std::vector<float>> {
                      if (!start.empty()) return start;
                      return FailedPrecondition("the first weights are not here");
                    }});
  if (!parts.ok()) {
    if (!run_ended.requested()) return parts.status();
    LONGWAVE_RETURN_IF_ERROR(place->End(Cancelled("the run has ended")));
    return RunEnded();
  }
  Onlooker onlooker(parts->control, *parts, MonotonicNow() + patience);
  parts->control = &onlooker;
  TrainingMember member(*parts);
  absl::Status ended = member.Begin().status();
  std::optional<absl::StatusOr<PresentWeights>>& found = onlooker.found();
  if (found.has_value()) ended = Cancelled("has what it came for");
  const absl::Status left = place->End(ended);
  if (found.has_value() && found->ok()) (*found)->steps = member.plan().FirstStep((*found)->rounds);
  if (found.has_value()) return *std::move(found);
  LONGWAVE_RETURN_IF_ERROR(left);
  if (run_ended.requested()) return RunEnded();
  return Unavailable("the shards have not given all segments of one round within ",
                     absl::FormatDuration(patience));
}

}  // namespace longwave
