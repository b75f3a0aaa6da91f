#include "worker/checkpoint/checkpoint_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

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

// Adds what result's rank needs of another rank's part.
absl::Status Add(const Layout& layout, Checkpoint part, Checkpoint* result) {
  const Coefficients there = CoefficientsOf(layout, part.node);
  const Coefficients here = CoefficientsOf(layout, result->node);
  if (part.momentum.size() != there.end - there.begin) {
    return DataLoss("checkpoint: got ", part.momentum.size(), " coefficients of rank ",
                    part.node.rank, " of ", part.node.ranks, ", wanted ", there.end - there.begin);
  }
  const uint64_t begin = std::max(here.begin, there.begin);
  const uint64_t end = std::min(here.end, there.end);
  if (begin < end) {
    std::copy_n(part.momentum.begin() + static_cast<ptrdiff_t>(begin - there.begin), end - begin,
                result->momentum.begin() + static_cast<ptrdiff_t>(begin - here.begin));
  }
  const SegmentRange segments = SegmentsOfRank(layout, part.node.rank, part.node.ranks);
  const SegmentRange owned = SegmentsOfRank(layout, result->node.rank, result->node.ranks);
  for (uint32_t s = segments.begin; s < segments.end; ++s) result->accounted[s] = part.accounted[s];
  for (UnsettledPush& push : part.pushes) {
    if (!segments.Contains(push.segment)) continue;
    if (!owned.Contains(push.segment)) push.payload = Buffer();
    result->pushes.push_back(std::move(push));
  }
  const bool is_split_alike = part.node.ranks == result->node.ranks;
  if (!is_split_alike || part.node == result->node)
    std::ranges::move(part.blobs, std::back_inserter(result->blobs));
  return absl::OkStatus();
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

absl::StatusOr<Checkpoint> ReadPart(FileSystem& files, const std::string& folder, Checkpoint first,
                                    const Layout& layout, NodeRank node) {
  if (first.node.rank != 0)
    return DataLoss("checkpoint: got the part of rank ", first.node.rank,
                    ", wanted that of rank 0");
  const CheckpointShape shape = ShapeOf(layout);
  NodeRank there = first.node;
  Checkpoint part{.node = there,
                  .blobs = std::exchange(first.blobs, {}),
                  .momentum = std::exchange(first.momentum, {}),
                  .accounted = first.accounted,
                  .pushes = std::exchange(first.pushes, {})};
  Checkpoint result = std::move(first);
  result.node = node;
  const Coefficients own = CoefficientsOf(layout, node);
  result.momentum.assign(own.end - own.begin, 0.0f);
  for (;;) {
    LONGWAVE_RETURN_IF_ERROR(Add(layout, std::move(part), &result));
    if (++there.rank == there.ranks) return result;
    const std::string file = JoinPath(folder, NameOf(result.write, there.rank));
    absl::StatusOr<Checkpoint> read = ReadCheckpoint(files, file, shape);
    if (!read.ok()) return DataLoss(read.status().message());
    part = *std::move(read);
    const bool fits = part.run == result.run && part.worker == result.worker &&
                      part.round == result.round && part.fragment == result.fragment &&
                      part.write == result.write && part.node == there;
    if (!fits) return DataLoss(file, ": got a part of another checkpoint");
  }
}

absl::StatusOr<std::optional<FoundCheckpoint>> ReadPartOfLast(FileSystem& files,
                                                              const std::string& folder,
                                                              uint64_t run, const std::string& name,
                                                              uint32_t worker, const Layout& layout,
                                                              NodeRank node) {
  LONGWAVE_ASSIGN_OR_RETURN(std::optional<FoundCheckpoint> found,
                            ReadLastCheckpoint(files, folder, run, name, worker, ShapeOf(layout)));
  if (!found.has_value() || (node.is_alone() && found->checkpoint.node.is_alone())) return found;
  absl::StatusOr<Checkpoint> part =
      ReadPart(files, folder, std::move(found->checkpoint), layout, node);
  if (!part.ok() && found->stale) {
    Log(LogLevel::kWarning,
        "no use of the last checkpoint, which is stale: ", part.status().message());
    return std::nullopt;
  }
  LONGWAVE_RETURN_IF_ERROR(part.status());
  found->checkpoint = *std::move(part);
  return found;
}

}  // namespace longwave
