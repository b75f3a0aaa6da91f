#include "server/audit/shard_audit.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// Compares bits, so −0 differs from 0.
bool SameBits(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace

ShardAudit::ShardAudit(const ShardAuditOptions& options, const Layout* layout,
                       const std::vector<SnapshotHeader>& states, LoadState load, OnMerge on_merge)
    : options_(options),
      layout_(layout),
      load_(std::move(load)),
      on_merge_(std::move(on_merge)),
      merger_(options.merge, options.threads) {
  const auto segments = layout->segments();
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (segments[i].shard != options.shard) continue;
    if (segments_.empty()) first_segment_ = i;  // the segments of a shard are contiguous
    segments_.emplace_back().tile_sizes = layout->TileSizes(i);
  }
  for (const SnapshotHeader& header : states) {
    if (header.key.kind != SnapshotKind::kState) continue;
    for (uint32_t i = 0; i < header.key.segment_count; ++i) {
      states_[{header.key.first_segment + i, header.key.round}] = header;
    }
  }
}

absl::Status ShardAudit::OnRecord(uint64_t sequence, const LogRecord& record) {
  if (const auto* push = std::get_if<PushRecord>(&record)) return OnPush(sequence, *push);
  if (const auto* merged = std::get_if<MergedRecord>(&record)) return OnMerged(sequence, *merged);
  if (const auto* restored = std::get_if<RestoredRecord>(&record)) return OnRestored(*restored);
  return absl::OkStatus();
}

absl::Status ShardAudit::OnPush(uint64_t sequence, const PushRecord& push) {
  const PushFrame& header = push.header;
  SegmentAudit* const segment = Find(header);
  ++findings_.pushes;
  if (segment == nullptr) {
    Problem(sequence, header, "a push that is not this shard's");
    return absl::OkStatus();
  }
  if (!segment->open_round.has_value()) {
    LONGWAVE_RETURN_IF_ERROR(Begin(header.segment, header.round));
  }
  if (header.round != *segment->open_round) {
    Problem(sequence, header, "accepted from worker ", header.worker, " while round ",
            *segment->open_round, " was open");
    return absl::OkStatus();
  }
  const auto [newest, is_first] = segment->newest.try_emplace(header.worker, header.round);
  if (!is_first && header.accounted != 0 && newest->second >= header.accounted) {
    Problem(sequence, header, "accepted from worker ", header.worker,
            ", whose residual accounts for ", header.accounted, " rounds, while its push of round ",
            newest->second, " is merged: what that had counts twice");
  }
  newest->second = header.round;
  if (!segment->pushes.emplace(header.worker, push).second) {
    Problem(sequence, header, "accepted from worker ", header.worker, " twice");
  }
  return absl::OkStatus();
}

absl::Status ShardAudit::OnMerged(uint64_t sequence, const MergedRecord& merged) {
  const MergedFrame& header = merged.header;
  SegmentAudit* const segment = Find(header);
  ++findings_.merges;
  if (segment == nullptr) {
    Problem(sequence, header, "a merged update that is not this shard's");
    return absl::OkStatus();
  }
  if (!segment->open_round.has_value()) {
    LONGWAVE_RETURN_IF_ERROR(Begin(header.segment, header.round));
  }
  if (header.round != *segment->open_round) {
    Problem(sequence, header, "closed while round ", *segment->open_round, " was open");
    segment->pushes.clear();
    segment->residual.reset();
    segment->has_all_pushes = false;
  }
  if (!CheckContributors(sequence, merged)) {
    // The residual after this merge is unknown until the next snapshot.
    segment->residual.reset();
    ++findings_.merges_unproved;
  } else if (!segment->residual.has_value()) {
    ++findings_.merges_unproved;
  } else if (Recompute(sequence, merged)) {
    ++findings_.merges_recomputed;
  } else {
    segment->residual.reset();
  }
  if (on_merge_) LONGWAVE_RETURN_IF_ERROR(on_merge_(merged, segment->pushes));
  segment->pushes.clear();
  segment->last_norm = header.norm;
  segment->open_round = header.round + 1;
  segment->has_all_pushes = true;
  return UseState(header.segment, header.round + 1);
}

// A restore drops the pushes to the round that was open, and what the shard held back.
absl::Status ShardAudit::OnRestored(const RestoredRecord& restored) {
  const uint32_t index = restored.segment;
  if (index - first_segment_ >= segments_.size()) return absl::OkStatus();
  SegmentAudit& segment = segments_[index - first_segment_];
  segment.open_round = restored.round;
  segment.has_all_pushes = true;
  segment.pushes.clear();
  segment.last_norm = 0;
  segment.residual.emplace(
      KeepsResidual(options_.merge) ? layout_->segments()[index].coefficient_count : 0);
  findings_.segments_restored += restored.round > 0;
  return UseState(index, restored.round);
}

absl::Status ShardAudit::Begin(uint32_t index, uint32_t round) {
  SegmentAudit& segment = segments_[index - first_segment_];
  segment.open_round = round;
  segment.has_all_pushes = options_.from_the_start;
  if (options_.from_the_start) segment.last_norm = 0;
  const bool has_residual = KeepsResidual(options_.merge);
  if (options_.from_the_start || !has_residual) {
    segment.residual.emplace(has_residual ? layout_->segments()[index].coefficient_count : 0);
    findings_.segments_restored += options_.from_the_start && round > 0;
  }
  // The log reaches back as far as any snapshot needs, including the pushes to its open round.
  if (states_.contains({index, round})) segment.has_all_pushes = true;
  return UseState(index, round);
}

absl::Status ShardAudit::UseState(uint32_t index, uint32_t round) {
  const auto place = states_.find({index, round});
  if (place == states_.end()) return absl::OkStatus();
  const SnapshotHeader& header = place->second;
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<SegmentSnapshot> states, load_(header));
  const MergedFrame where{.round = round, .segment = index};
  if (states.size() != header.key.segment_count) {
    Problem(header.replay_from, where, "its snapshot has another number of segments than it says");
    return absl::OkStatus();
  }
  SegmentSnapshot& state = states[index - header.key.first_segment];
  SegmentAudit& segment = segments_[index - first_segment_];
  if (state.open_round != round) {
    Problem(header.replay_from, where, "its snapshot has round ", state.open_round, " open");
    return absl::OkStatus();
  }
  if (!segment.last_norm.has_value()) {
    segment.last_norm = state.closed.has_value() ? state.closed->header.norm : 0;
  }
  if (segment.residual.has_value()) {
    ++findings_.states_compared;
    if (SameBits(std::as_bytes(std::span(*segment.residual)),
                 std::as_bytes(std::span<const float>(state.residual)))) {
      return absl::OkStatus();
    }
    Problem(header.replay_from, where, "its snapshot's residual is not what the merges left");
  }
  const uint64_t wanted =
      KeepsResidual(options_.merge) ? layout_->segments()[index].coefficient_count : 0;
  if (state.residual.size() == wanted) segment.residual = std::move(state.residual);
  return absl::OkStatus();
}

bool ShardAudit::CheckContributors(uint64_t sequence, const MergedRecord& merged) {
  const SegmentAudit& segment = *Find(merged.header);
  bool is_complete = true;
  size_t found = 0;
  for (const Contributor& contributor : merged.contributors) {
    const auto push = segment.pushes.find(contributor.worker);
    if (push == segment.pushes.end()) {
      is_complete = false;
      if (segment.has_all_pushes) {
        Problem(sequence, merged.header, "merged with a push of worker ", contributor.worker,
                " that was never accepted");
      }
      continue;
    }
    ++found;
    if (push->second.header.weight != contributor.weight) {
      is_complete = false;
      Problem(sequence, merged.header, "worker ", contributor.worker, "'s weight: got ",
              contributor.weight, ", wanted its push's, ", push->second.header.weight);
    }
  }
  if (found == segment.pushes.size()) return is_complete;
  for (const auto& [worker, push] : segment.pushes) {
    if (std::ranges::count(merged.contributors, worker, &Contributor::worker) > 0) continue;
    Problem(sequence, merged.header, "merged without the accepted push of worker ", worker);
  }
  return false;
}

bool ShardAudit::Recompute(uint64_t sequence, const MergedRecord& merged) {
  SegmentAudit& segment = *Find(merged.header);
  std::vector<Contribution> contributions;
  std::vector<float> norms;
  for (const Contributor& contributor : merged.contributors) {
    const PushRecord& push = segment.pushes.at(contributor.worker);
    const auto layout = LayoutOf(segment, push.payload.bytes());
    if (!layout.ok()) {
      Problem(sequence, merged.header, "the accepted push of worker ", contributor.worker, ": ",
              layout.status().message());
      return false;
    }
    contributions.push_back({.weight = contributor.weight,
                             .layout = *layout,
                             .payload = push.payload.bytes(),
                             .factor = contributor.factor});
    norms.push_back(push.header.norm);
  }
  if (contributions.empty()) {
    Problem(sequence, merged.header, "merged from nothing");
    return false;
  }
  const std::vector<double> factors =
      ClipFactors(norms, segment.last_norm.value_or(0), options_.clip);
  for (size_t i = 0; i < factors.size() && segment.last_norm.has_value(); ++i) {
    if (contributions[i].factor == factors[i]) continue;
    Problem(sequence, merged.header, "worker ", merged.contributors[i].worker, " was merged with ",
            contributions[i].factor, " of its weight, wanted ", factors[i]);
    return false;
  }
  const MergedSegment result = merger_.Merge(*layout_, merged.header.segment, merged.header.round,
                                             contributions, *segment.residual);
  if (!SameBits(merged.payload.bytes(), result.payload)) {
    Problem(sequence, merged.header, "the merged update is not what its pushes make");
    return false;
  }
  if (merged.header.weight != result.weight_sum || merged.header.norm != result.norm()) {
    Problem(sequence, merged.header, "got weight ", merged.header.weight, " and norm ",
            merged.header.norm, ", wanted ", result.weight_sum, " and ", result.norm());
    return false;
  }
  if (segment.residual->empty() || merged.residual_hash == 0) return true;
  const uint64_t hash = HashContent(std::as_bytes(std::span<const float>(*segment.residual)));
  if (merged.residual_hash != hash) {
    Problem(sequence, merged.header,
            absl::StrFormat("what is held back has hash %016x, wanted %016x", merged.residual_hash,
                            hash));
    return false;
  }
  return true;
}

absl::StatusOr<const PayloadLayout*> ShardAudit::LayoutOf(SegmentAudit& segment,
                                                          std::span<const std::byte> payload) {
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(payload));
  auto known = std::ranges::find_if(segment.formats,
                                    [&](const auto& form) { return form->format() == format; });
  if (known == segment.formats.end()) {
    LONGWAVE_ASSIGN_OR_RETURN(PayloadLayout created,
                              PayloadLayout::Create(format, segment.tile_sizes));
    segment.formats.push_back(std::make_unique<const PayloadLayout>(std::move(created)));
    known = segment.formats.end() - 1;
  }
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(**known, payload));
  return known->get();
}

ShardAudit::SegmentAudit* ShardAudit::Find(const FrameName& frame) {
  if (frame.run != options_.run || frame.segment - first_segment_ >= segments_.size()) {
    return nullptr;
  }
  return &segments_[frame.segment - first_segment_];
}

ShardFindings ShardAudit::Finish() {
  findings_.pushes_open = 0;
  for (const SegmentAudit& segment : segments_) findings_.pushes_open += segment.pushes.size();
  return findings_;
}

std::optional<uint32_t> ShardAudit::NextRound(uint32_t segment) const {
  return segments_[segment - first_segment_].open_round;
}

void ShardAudit::AddProblem(uint64_t sequence, const FrameName& frame, const std::string& what) {
  ++findings_.problem_count;
  if (findings_.problems.size() >= ShardFindings::kProblemsKept) return;
  findings_.problems.push_back(absl::StrCat("shard ", options_.shard, ", record ", sequence,
                                            ": segment ", frame.segment, ", round ", frame.round,
                                            ": ", what));
}

}  // namespace longwave
