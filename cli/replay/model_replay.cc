#include "cli/replay/model_replay.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/layout/segment_elements.h"
#include "kernels/ops.h"
#include "server/store/snapshot_content.h"
#include "worker/member/sync_options.h"

namespace longwave {

ModelReplay::ModelReplay(const RunConfig* config, const Layout* layout, SyncPlan plan,
                         uint32_t until)
    : config_(config),
      layout_(layout),
      schedule_(config->train, config->run.steps),
      plan_(std::move(plan)),
      until_(std::min(until, plan_.rounds().decided_rounds())),
      theta_(layout->parameter_count()) {
  if (config->sync.signal == SignalKind::kGradient) gradient_.resize(layout->parameter_count());
}

absl::StatusOr<std::unique_ptr<ModelReplay>> ModelReplay::Create(const RunConfig* config,
                                                                 const Layout* layout,
                                                                 std::vector<float> initial,
                                                                 uint32_t threads, uint32_t until,
                                                                 const Intervals& intervals) {
  SyncPlan plan = SyncPlanOf(*config, FragmentCount(config->sync.fragments, *layout));
  if (FitsInterval(*config)) LONGWAVE_RETURN_IF_ERROR(plan.Extend(intervals));
  std::unique_ptr<ModelReplay> replay(new ModelReplay(config, layout, std::move(plan), until));
  if (!initial.empty() && initial.size() != layout->parameter_count()) {
    return InvalidArgument("initial weights: got ", initial.size(), " parameters, wanted ",
                           layout->parameter_count());
  }
  replay->known_.assign(layout->segments().size(), !initial.empty());
  replay->applied_.assign(layout->segments().size(), false);
  if (!initial.empty()) replay->theta_ = std::move(initial);
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(BackendKind::kCpu));
  LONGWAVE_ASSIGN_OR_RETURN(
      replay->pipeline_,
      SyncPipeline::Create(
          SyncOptionsOf(config->sync, config->run.seed), layout, ops,
          Exec{.threads = static_cast<int>(threads)},
          {.theta = replay->theta_.data(),
           .gradient = replay->gradient_.empty() ? nullptr : replay->gradient_.data()}));
  return replay;
}

void ModelReplay::AddModels(const std::vector<SnapshotHeader>& snapshots, const LoadModel& load) {
  for (const SnapshotHeader& header : snapshots) {
    if (header.key.kind == SnapshotKind::kState || header.key.segment_count != 1) continue;
    models_[{header.key.first_segment, header.key.round}] = {header, load};
  }
}

absl::Status ModelReplay::Apply(uint32_t segment, uint32_t round, const Buffer& merged) {
  if (round >= until_) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(OnSnapshot(segment, round));
  if (!known_[segment]) return absl::OkStatus();
  if (const uint32_t wanted = pipeline_->anchor_round(segment); round != wanted) {
    known_[segment] = false;
    // The update precedes the log's first record; a later snapshot continues.
    if (wanted == 0 && !applied_[segment]) return absl::OkStatus();
    problems_.push_back(absl::StrCat("segment ", segment, ": round ", round,
                                     " is in the log, but not round ", wanted));
    return absl::OkStatus();
  }
  applied_[segment] = true;
  LONGWAVE_RETURN_IF_ERROR(
      pipeline_->CatchUp(segment, round, LearningRate(segment, round), merged));
  if (const auto wanted = hashes_.find(round); wanted != hashes_.end()) {
    LONGWAVE_ASSIGN_OR_RETURN(const auto arrays, pipeline_->ExportSegment(segment));
    wanted->second[segment] = SegmentStateHash(*layout_, segment, arrays);
  }
  return absl::OkStatus();
}

void ModelReplay::Remember(const std::vector<uint32_t>& rounds) {
  for (const uint32_t round : rounds) hashes_[round].resize(known_.size());
}

std::optional<uint64_t> ModelReplay::HashAfter(uint32_t round) const {
  const auto remembered = hashes_.find(round);
  if (remembered == hashes_.end()) return std::nullopt;
  std::vector<uint64_t> hashes;
  for (const std::optional<uint64_t>& hash : remembered->second) {
    if (!hash.has_value()) return std::nullopt;
    hashes.push_back(*hash);
  }
  return CombineHashes(hashes);
}

absl::Status ModelReplay::OnSnapshot(uint32_t segment, uint32_t round) {
  const auto place = models_.find({segment, round});
  if (place == models_.end()) return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(const Buffer content, place->second.load(place->second.header));
  LONGWAVE_ASSIGN_OR_RETURN(const auto spans,
                            DecodeModelContent(content, pipeline_->segment_arrays()));
  std::vector<std::vector<float>> arrays;
  arrays.reserve(spans.size());
  for (const std::span<const float> array : spans) arrays.emplace_back(array.begin(), array.end());
  models_.erase(place);
  if (known_[segment] && pipeline_->anchor_round(segment) == round) {
    LONGWAVE_ASSIGN_OR_RETURN(const auto here, pipeline_->ExportSegment(segment));
    ++models_compared_;
    bool equal = here.size() == arrays.size();
    for (size_t i = 0; equal && i < here.size(); ++i) {
      equal = here[i].size() == arrays[i].size() &&
              std::memcmp(here[i].data(), arrays[i].data(), here[i].size() * sizeof(float)) == 0;
    }
    if (equal) return absl::OkStatus();
    problems_.push_back(absl::StrCat("segment ", segment, ": its snapshot before round ", round,
                                     " is not what the updates before it make"));
    return absl::OkStatus();
  }
  known_[segment] = true;
  return pipeline_->LoadSegment(segment, round, arrays);
}

double ModelReplay::LearningRate(uint32_t segment, uint32_t round) const {
  const SyncPoint point = plan_.At(round, segment % plan_.fragment_count());
  // The learning rate of the last step before the signal, as in the trainer.
  return schedule_.LearningRate(point.signal_step - 1);
}

std::optional<uint32_t> ModelReplay::rounds_of_all() const {
  uint32_t rounds = kRoundNever;
  for (uint32_t s = 0; s < known_.size(); ++s) {
    if (!known_[s]) return std::nullopt;
    rounds = std::min(rounds, pipeline_->anchor_round(s));
  }
  return rounds;
}

absl::StatusOr<ModelReplay::Result> ModelReplay::Finish() {
  Result result;
  for (uint32_t s = 0; s < known_.size(); ++s) {
    // A segment may have a snapshot of its last round and no update in the log.
    if (!known_[s]) {
      for (auto model = models_.lower_bound({s, 0});
           model != models_.end() && model->first.first == s; model = models_.lower_bound({s, 0})) {
        LONGWAVE_RETURN_IF_ERROR(OnSnapshot(s, model->first.second));
      }
    }
    if (!known_[s]) {
      return FailedPrecondition(
          "segment ", s, " has neither its beginning nor a snapshot that leads to the present");
    }
    const uint32_t rounds = pipeline_->anchor_round(s);
    if (s == 0) result.rounds = rounds;
    if (rounds != result.rounds) {
      return FailedPrecondition("segment 0 has ", result.rounds, " rounds, segment ", s, " has ",
                                rounds);
    }
  }
  LONGWAVE_RETURN_IF_ERROR(pipeline_->AdoptAnchor());
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<uint64_t> hashes, pipeline_->Hashes());
  result.state_hash = CombineHashes(hashes);
  return result;
}

}  // namespace longwave
