#include "worker/checkpoint/checkpoint_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "worker/checkpoint/worker_folder.h"

namespace longwave {
namespace {

constexpr char kPrefix[] = "part.";

std::string PrefixOf(uint64_t write) { return absl::StrFormat("%s%016x.", kPrefix, write); }

std::string NameOf(uint64_t write, uint32_t rank) { return absl::StrCat(PrefixOf(write), rank); }

struct Coefficients {
  uint64_t begin = 0;
  uint64_t end = 0;
};
Coefficients CoefficientsOf(const Layout& layout, NodeRank node) {
  const auto [begin, end] = SegmentsOfRank(layout, node.rank, node.ranks);
  if (begin == end) return {};
  const Segment& last = layout.segments()[end - 1];
  return {layout.segments()[begin].coefficient_begin,
          last.coefficient_begin + last.coefficient_count};
}

}  // namespace

absl::Status WriteCheckpointPart(FileSystem& files, const std::string& folder,
                                 const Checkpoint& part) {
  LONGWAVE_ASSIGN_OR_RETURN(const EncodedCheckpoint encoded, EncodeCheckpoint(part));
  return Publish(files, folder, NameOf(part.write, part.node.rank), encoded.pieces);
}

absl::Status RemovePartsBut(FileSystem& files, const std::string& folder, uint64_t write) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, kPrefix) || absl::StartsWith(name, PrefixOf(write))) continue;
    LONGWAVE_RETURN_IF_ERROR(files.Remove(JoinPath(folder, name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Checkpoint>> ReadParts(FileSystem& files, const std::string& folder,
                                                  Checkpoint first, const CheckpointShape& shape) {
  const NodeRank node = first.node;
  if (node.rank != 0)
    return absl::DataLossError(
        absl::StrCat("checkpoint: got the part of rank ", node.rank, ", wanted that of rank 0"));
  std::vector<Checkpoint> parts;
  parts.push_back(std::move(first));
  for (uint32_t rank = 1; rank < node.ranks; ++rank) {
    const std::string file = JoinPath(folder, NameOf(parts[0].write, rank));
    absl::StatusOr<Checkpoint> part = ReadCheckpoint(files, file, shape);
    if (!part.ok()) return absl::DataLossError(part.status().message());
    const bool fits = part->run == parts[0].run && part->worker == parts[0].worker &&
                      part->round == parts[0].round && part->fragment == parts[0].fragment &&
                      part->write == parts[0].write &&
                      part->node == NodeRank{.rank = rank, .ranks = node.ranks};
    if (!fits) return absl::DataLossError(absl::StrCat(file, ": got a part of another checkpoint"));
    parts.push_back(*std::move(part));
  }
  return parts;
}

absl::StatusOr<Checkpoint> PartOf(std::vector<Checkpoint> parts, const Layout& layout,
                                  NodeRank node) {
  const bool is_split_alike = parts.size() == node.ranks;
  const SegmentRange owned = SegmentsOfRank(layout, node.rank, node.ranks);
  const Coefficients wanted = CoefficientsOf(layout, node);
  Checkpoint whole = parts[0];
  whole.node = node;
  whole.momentum.assign(wanted.end - wanted.begin, 0.0f);
  whole.blobs.clear();
  whole.pushes.clear();
  for (Checkpoint& part : parts) {
    const Coefficients there = CoefficientsOf(layout, part.node);
    if (part.momentum.size() != there.end - there.begin) {
      return absl::DataLossError(absl::StrCat(
          "checkpoint: got ", part.momentum.size(), " coefficients of rank ", part.node.rank,
          " of ", part.node.ranks, ", wanted ", there.end - there.begin));
    }
    const uint64_t begin = std::max(wanted.begin, there.begin);
    const uint64_t end = std::min(wanted.end, there.end);
    if (begin < end) {
      std::copy_n(part.momentum.begin() + static_cast<ptrdiff_t>(begin - there.begin), end - begin,
                  whole.momentum.begin() + static_cast<ptrdiff_t>(begin - wanted.begin));
    }
    const SegmentRange segments = SegmentsOfRank(layout, part.node.rank, part.node.ranks);
    for (uint32_t s = segments.begin; s < segments.end; ++s) whole.accounted[s] = part.accounted[s];
    for (UnsettledPush& push : part.pushes) {
      if (!segments.Contains(push.segment)) continue;
      if (!owned.Contains(push.segment)) push.payload = Buffer();
      whole.pushes.push_back(std::move(push));
    }
    if (is_split_alike && part.node != node) continue;
    std::ranges::move(part.blobs, std::back_inserter(whole.blobs));
  }
  return whole;
}

}  // namespace longwave
