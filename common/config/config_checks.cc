#include "common/config/config_checks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/config/gpt_shape.h"
#include "common/config/key_types.h"
#include "common/wire/frame.h"

namespace longwave {
namespace {

// A contradiction between the keys, and its sentence's parts in a row.
Contradiction Between(std::vector<std::string> keys, const auto&... parts) {
  return {std::move(keys), absl::StrCat(ErrorPart(parts)...)};
}

std::optional<Contradiction> InModelAndTraining(const RunConfig& config) {
  if (config.model.d_model % config.model.heads != 0) {
    return Between({"model.d_model", "model.heads"}, "model.d_model: got ", config.model.d_model,
                   ", wanted a multiple of model.heads (", config.model.heads, ")");
  }
  const bool is_bytes = config.data.kind != "tokens";
  if (is_bytes && config.model.vocabulary < kByteVocabulary) {
    return Between({"model.vocabulary", "data.kind"}, "model.vocabulary: got ",
                   config.model.vocabulary, ", wanted at least ", kByteVocabulary,
                   " with data.kind ", config.data.kind, ", whose tokens are bytes");
  }
  if (!is_bytes && config.data.path == "compiler-headers") {
    return Between({"data.path", "data.kind"},
                   "data.path: got compiler-headers, which are text, wanted a path with data.kind ",
                   config.data.kind);
  }
  if (config.train.activation_checkpoints && config.model.kind != "gpt") {
    return Between({"train.activation_checkpoints", "model.kind"},
                   "train.activation_checkpoints: got true with model.kind ", config.model.kind,
                   ", wanted gpt");
  }
  if (config.train.warmup_steps >= config.run.steps) {
    return Between({"train.warmup_steps", "run.steps"}, "train.warmup_steps: got ",
                   config.train.warmup_steps, ", wanted fewer than run.steps (", config.run.steps,
                   ")");
  }
  return std::nullopt;
}

// A contradiction between bounds of the interval that is fitted.
std::optional<Contradiction> InBounds(const RunConfig& config) {
  const SyncSection& sync = config.sync;
  if (sync.inner_steps_min > sync.inner_steps_max) {
    return Between({"sync.inner_steps_min", "sync.inner_steps_max"}, "sync.inner_steps_min: got ",
                   sync.inner_steps_min, ", wanted at most sync.inner_steps_max (",
                   sync.inner_steps_max, ")");
  }
  if (sync.inner_steps_min <= config.run.steps) return std::nullopt;
  return Between({"sync.inner_steps_min", "run.steps"}, "sync.inner_steps_min: got ",
                 sync.inner_steps_min, ", wanted at most run.steps (", config.run.steps, ")");
}

std::optional<Contradiction> InRounds(const RunConfig& config) {
  if (FitsInterval(config)) return InBounds(config);
  if (config.sync.inner_steps <= config.run.steps) return std::nullopt;
  return Between({"sync.inner_steps", "run.steps"}, "sync.inner_steps: got ",
                 config.sync.inner_steps, ", wanted at most run.steps (", config.run.steps,
                 "): the workers would not sync before the run's end");
}

std::optional<Contradiction> InSignalAndUpdate(const SyncSection& sync) {
  if (sync.signal == SignalKind::kGradient && sync.inner_steps != 1) {
    return Between({"sync.inner_steps", "sync.signal"}, "sync.inner_steps: got ",
                   sync.inner_steps == 0 ? "auto" : absl::StrCat(sync.inner_steps),
                   ", wanted 1 with sync.signal gradient");
  }
  if (sync.update == UpdateRule::kInner && sync.signal != SignalKind::kGradient) {
    return Between({"sync.update", "sync.signal"},
                   "sync.update: inner takes a gradient, got sync.signal ", Name(sync.signal));
  }
  if (sync.update == UpdateRule::kLocal && sync.signal != SignalKind::kPseudoGradient) {
    return Between({"sync.update", "sync.signal"},
                   "sync.update: local takes a pseudo-gradient, got sync.signal ",
                   Name(sync.signal));
  }
  if (sync.update == UpdateRule::kLocal && sync.up.selection == Selection::kAll) {
    return Between({"sync.update", "sync.up.selection"},
                   "sync.update: local applies what a selection leaves behind, got "
                   "sync.up.selection all");
  }
  if (sync.update == UpdateRule::kInner && sync.follow_schedule) {
    return Between({"sync.follow_schedule", "sync.update"},
                   "sync.follow_schedule: got true, wanted false with sync.update inner, whose "
                   "optimizer follows the schedule already");
  }
  if (sync.update == UpdateRule::kInner && sync.weight_decay != 0) {
    return Between({"sync.weight_decay", "sync.update"}, "sync.weight_decay: got ",
                   FormatNumber(sync.weight_decay),
                   ", wanted 0 with sync.update inner, which has "
                   "train.weight_decay");
  }
  return std::nullopt;
}

std::optional<Contradiction> InOverlap(const SyncSection& sync) {
  // All fragments and the overlap fit each H that a round may have.
  const char* const key = sync.inner_steps == 0 ? "sync.inner_steps_min" : "sync.inner_steps";
  const uint32_t least = LeastInnerSteps(sync);
  if (sync.fragments > least) {
    return Between({"sync.fragments", key}, "sync.fragments: got ", sync.fragments,
                   ", wanted at most ", key, " (", least, ")");
  }
  const uint32_t steps_between = (least + sync.fragments - 1) / sync.fragments;
  if (sync.overlap >= steps_between) {
    return Between({"sync.overlap", key, "sync.fragments"}, "sync.overlap: got ", sync.overlap,
                   ", wanted fewer than the ", steps_between, " steps between two syncs (", key,
                   " over sync.fragments)");
  }
  if ((sync.overlap > 0 || sync.fragments > 1) && sync.update == UpdateRule::kLocal) {
    return Between({"sync.overlap", "sync.fragments", "sync.update"},
                   "sync.update: local moves the anchor by the replica's own signal at the "
                   "sync itself, got an overlap or fragments, wanted sync.overlap 0 and "
                   "sync.fragments 1");
  }
  return std::nullopt;
}

std::optional<Contradiction> InStart(const RunConfig& config) {
  if (config.run.start != "member" || CanCatchUp(config)) return std::nullopt;
  return Between(
      {"run.start", "sync.update"},
      "run.start: member lets workers fetch the run's state, got "
      "sync.update ",
      Name(config.sync.update),
      ", with which a replica is more than the merged updates; wanted run.start seed, and "
      "the same first weights at all workers");
}

// The weight of a push is its tokens.
std::optional<Contradiction> InWeights(const RunConfig& config) {
  const uint64_t weight = ContributionWeightMax(config);
  if (weight <= kWeightMax) return std::nullopt;
  const uint64_t steps = ContributionStepsMax(config);
  const char* const key = FitsInterval(config) ? "sync.inner_steps_max" : "sync.inner_steps";
  return Between({key, "train.batch", "model.context", "sync.fragments", "run.steps"}, key,
                 ": got ", MostInnerSteps(config.sync), ", with which a contribution is of up to ",
                 steps, " steps of ", weight / steps, " tokens (train.batch times model.context), ",
                 weight, " in all, wanted at most ", kWeightMax);
}

std::optional<Contradiction> InTiles(const SyncSection& sync) {
  if (sync.tiling != Tiling::kTensor && sync.block != 64) {
    return Between({"sync.block", "sync.tiling"}, "sync.block: got ", sync.block,
                   ", wanted 64 without sync.tiling tensor");
  }
  // The start is drawn from n / k places, so n / k rounds cover every coefficient once only if k
  // divides n.
  if (sync.up.selection == Selection::kStride && sync.tiling != Tiling::kTensor &&
      kTileSizeMax % sync.up.k != 0) {
    return Between({"sync.up.k", "sync.up.selection"}, "sync.up.k: got ", sync.up.k,
                   ", wanted a divisor of ", kTileSizeMax, " with sync.up.selection stride");
  }
  return std::nullopt;
}

std::optional<Contradiction> InCluster(const RunConfig& config) {
  const ClusterSection& cluster = config.cluster;
  if (WorkersMax(config) < config.run.workers) {
    return Between({"cluster.workers_max", "run.workers"}, "cluster.workers_max: got ",
                   cluster.workers_max, ", wanted at least run.workers (", config.run.workers,
                   "), or 0");
  }
  if (cluster.heartbeat_timeout_s < 2 * cluster.heartbeat_interval_s) {
    return Between({"cluster.heartbeat_timeout_s", "cluster.heartbeat_interval_s"},
                   "cluster.heartbeat_timeout_s: got ", FormatNumber(cluster.heartbeat_timeout_s),
                   ", wanted at least two of cluster.heartbeat_interval_s (",
                   FormatNumber(cluster.heartbeat_interval_s), ")");
  }
  if (cluster.grace_max_s < cluster.grace_min_s) {
    return Between({"cluster.grace_max_s", "cluster.grace_min_s"}, "cluster.grace_max_s: got ",
                   FormatNumber(cluster.grace_max_s), ", wanted at least cluster.grace_min_s (",
                   FormatNumber(cluster.grace_min_s), ")");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Contradiction> FindContradiction(const RunConfig& config) {
  if (auto found = InModelAndTraining(config)) return found;
  if (auto found = InSignalAndUpdate(config.sync)) return found;
  if (auto found = InOverlap(config.sync)) return found;
  if (auto found = InStart(config)) return found;
  if (auto found = InWeights(config)) return found;
  if (auto found = InRounds(config)) return found;
  if (auto found = InTiles(config.sync)) return found;
  return InCluster(config);
}

}  // namespace longwave
