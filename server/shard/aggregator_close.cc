// The close of a round.

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/crc32c.h"
#include "server/shard/aggregator.h"

namespace longwave {
namespace {

// ⌈share · count⌉, at least 1. A share such as 0.1 is inexact, and its rounding must not turn 3 of
// 30 into 4.
uint32_t QuorumOf(double share, uint32_t count) {
  return static_cast<uint32_t>(std::max(std::ceil(share * count - 1e-9), 1.0));
}

}  // namespace

void Aggregator::CloseIfComplete(SegmentRounds& segment, absl::Time now, Effects& effects) {
  if (segment.accepted.empty() || segment.is_held_open) return;
  // After most pushes some are still missing. Their number alone shows that, so a push costs the
  // same with any number of members.
  const uint32_t due = DueCount(segment.open_round);
  const auto pushed = static_cast<uint32_t>(segment.accepted.size()) - segment.strangers;
  uint32_t given_up = 0;
  for (const auto& [worker, missed] : segment.missed) given_up += missed >= kMissedMax;
  if (pushed + given_up < due) {
    if (options_.quorum >= 1) return;
    if (pushed < QuorumOf(options_.quorum, due)) {
      SetQuorumAt(segment, absl::InfiniteFuture());
    } else if (segment.quorum_at == absl::InfiniteFuture()) {
      SetQuorumAt(segment, now);
    }
    if (now < segment.quorum_at + segment.grace.current()) return;
    ++counts_.closed_by_quorum;
  } else if (segment.quorum_at == absl::InfiniteFuture()) {
    SetQuorumAt(segment, now);
  }
  Close(segment, effects);
}

void Aggregator::SetQuorumAt(SegmentRounds& segment, absl::Time at) {
  if (at == segment.quorum_at) return;
  segment.quorum_at = at;
  due_.reset();
}

void Aggregator::Close(SegmentRounds& segment, Effects& effects) {
  if (options_.quorum < 1) {
    segment.grace.Add(segment.last_push - segment.quorum_at);
    NoteMissed(segment);
  }
  MergedRecord record = Merge(segment, OpenContributors(segment), options_.logs);
  NoteClipped(segment, record.contributors, effects);
  ++counts_.segments_closed;
  OpenNext(segment, record);
  std::vector<uint32_t> workers;
  for (const Member& member : membership_.members) workers.push_back(member.worker);
  SendFrame send = SendUpdate(std::move(workers), record.header, record.payload, SendCause::kClose);
  if (options_.logs) effects.push_back({KeepRecord{std::move(record)}});
  effects.push_back({std::move(send)});
}

void Aggregator::NoteMissed(SegmentRounds& segment) const {
  const uint32_t round = segment.open_round;
  if (segment.accepted.size() - segment.strangers == DueCount(round)) return;
  for (const Member& member : membership_.members) {
    if (member.first_round <= round && !segment.accepted.contains(member.worker)) {
      ++segment.missed[member.worker];
    }
  }
}

std::vector<Contributor> Aggregator::OpenContributors(const SegmentRounds& segment) const {
  std::vector<Contributor> contributors;
  std::vector<float> norms;
  for (const auto& [worker, push] : segment.accepted) {
    contributors.push_back({.worker = worker, .weight = push.weight, .crc = push.crc});
    norms.push_back(push.norm);
  }
  const float last = segment.closed ? segment.closed->header.norm : 0;
  const std::vector<double> factors = ClipFactors(norms, last, options_.clip);
  for (size_t i = 0; i < factors.size(); ++i) contributors[i].factor = factors[i];
  return contributors;
}

void Aggregator::NoteClipped(const SegmentRounds& segment,
                             const std::vector<Contributor>& contributors, Effects& effects) {
  for (const Contributor& contributor : contributors) {
    if (contributor.factor == 1) continue;
    ++counts_.pushes_clipped;
    const bool left_out = contributor.factor == 0;
    const float norm = segment.accepted.at(contributor.worker).norm;
    const std::string what =
        left_out ? "left out of the merge: over a thousand times what sync.clip lets in"
                 : absl::StrCat("clipped to ", contributor.factor * norm, " (sync.clip)");
    effects.push_back({ContributionClipped{
        contributor.worker, left_out,
        absl::StrCat("contribution of worker ", contributor.worker, ", round ", segment.open_round,
                     ", segment ", segment.segment, ": norm ", norm, ", ", what)}});
  }
}

MergedRecord Aggregator::Merge(SegmentRounds& segment, std::vector<Contributor> contributors,
                               bool hashes_residual) {
  std::vector<Contribution> contributions;
  for (const auto& [worker, push] : segment.accepted) {
    contributions.push_back({push.weight, push.layout.get(), push.payload.bytes()});
    contributions.back().factor = contributors[contributions.size() - 1].factor;
  }
  MergedSegment merged = merger_->Merge(*layout_, segment.segment, segment.open_round,
                                        contributions, segment.residual);
  MergedRecord record;
  record.header = {.run = options_.run,
                   .epoch = membership_.epoch,
                   .round = segment.open_round,
                   .segment = segment.segment,
                   .weight = merged.weight_sum,
                   .norm = merged.norm(),
                   .contributions = static_cast<uint32_t>(contributions.size()),
                   .payload_bytes = static_cast<uint32_t>(merged.payload.size()),
                   .payload_crc = Crc32c(merged.payload)};
  record.contributors = std::move(contributors);
  if (hashes_residual && !segment.residual.empty()) {
    record.residual_hash =
        XXH3_64bits(segment.residual.data(), segment.residual.size() * sizeof(float));
  }
  record.payload = Buffer(std::move(merged.payload));
  return record;
}

void Aggregator::OpenNext(SegmentRounds& segment, const MergedRecord& closed) {
  ClosedSegment& last = segment.closed.emplace();
  last.header = closed.header;
  for (const Contributor& contributor : closed.contributors) {
    last.contributors.push_back({contributor.worker, contributor.crc});
  }
  last.payload = closed.payload;
  segment.accepted.clear();
  segment.strangers = 0;
  open_bytes_ -= segment.open_bytes;
  segment.open_bytes = 0;
  segment.closed_quorum_at = segment.quorum_at;
  SetQuorumAt(segment, absl::InfiniteFuture());
  ++segment.open_round;
}

}  // namespace longwave
