#include "worker/member/sync_options.h"

#include "common/base/check.h"

namespace longwave {
namespace {

UpdateKind UpdateKindOf(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::kSgd:
      return UpdateKind::kSgd;
    case UpdateRule::kSign:
      return UpdateKind::kSign;
    case UpdateRule::kNesterov:
      return UpdateKind::kNesterov;
    case UpdateRule::kInner:
      return UpdateKind::kInner;
    case UpdateRule::kLocal:
      return UpdateKind::kLocal;
  }
  LONGWAVE_CHECK(false);
}

}  // namespace

SyncOptions SyncOptionsOf(const SyncSection& sync, uint64_t run_seed) {
  const bool pseudo_gradient = sync.signal == SignalKind::kPseudoGradient;
  return {
      .pseudo_gradient = pseudo_gradient,
      .scale_by_learning_rate = !pseudo_gradient && sync.update != UpdateRule::kInner,
      .transform = sync.transform,
      .up = sync.up,
      .beta = static_cast<float>(sync.beta),
      .alpha = static_cast<float>(sync.alpha),
      .update = UpdateKindOf(sync.update),
      .eta = static_cast<float>(sync.eta),
      .eta_follows_learning_rate = sync.follow_schedule,
      .mu = static_cast<float>(sync.mu),
      .weight_decay = static_cast<float>(sync.weight_decay),
      .run_seed = run_seed,
      .overlapped = sync.overlap > 0,
      .blend = static_cast<float>(sync.blend),
      .fragments = sync.fragments,
  };
}

RoundPlan RoundPlanOf(const RunConfig& config) {
  if (FitsInterval(config)) return RoundPlan(config.run.steps);
  return RoundPlan(config.sync.inner_steps, config.run.steps);
}

SyncPlan SyncPlanOf(const RunConfig& config, uint32_t fragment_count) {
  return SyncPlan(RoundPlanOf(config), fragment_count, config.sync.overlap);
}

}  // namespace longwave
