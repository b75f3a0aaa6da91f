#ifndef LONGWAVE_SERVER_AUDIT_SHARD_AUDIT_H_
#define LONGWAVE_SERVER_AUDIT_SHARD_AUDIT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/layout/layout.h"
#include "common/wire/payload.h"
#include "server/shard/merge.h"
#include "server/shard/shard_records.h"
#include "server/shard/tile_threads.h"
#include "server/store/snapshot_format.h"

namespace longwave {

struct ShardAuditOptions {
  uint64_t run = 0;
  uint32_t shard = 0;
  MergeOptions merge;
  double clip = 0;
  // The log has its first record, before which the shard's residual was zero.
  bool from_the_start = false;
  std::shared_ptr<TileThreads> threads;  // for merges; null: the caller's thread
};

// The result of an audit. A problem is a sentence about a broken promise.
struct ShardFindings {
  uint64_t pushes = 0;             // accepted
  uint64_t merges = 0;             // closed rounds of segments
  uint64_t merges_recomputed = 0;  // and found as they stand in the log, bit for bit
  uint64_t merges_unproved = 0;    // inputs are no longer in the log
  uint64_t states_compared = 0;    // snapshots of the shard's residual
  uint64_t pushes_open = 0;        // accepted, in a round that is still open
  // Restores of segments from the members' replicas, without those to round 0.
  uint64_t segments_restored = 0;
  uint64_t problem_count = 0;
  std::vector<std::string> problems;  // the first of them

  static constexpr size_t kProblemsKept = 20;
};

// Checks a shard's delta log, record by record, against the shard's promises:
//
//   - The rounds of a segment close one after the other, without a gap but for a restore.
//   - Every accepted push enters exactly one merge, the one of its round, with its weight. A merge
//     has no other contributions.
//   - A push is accepted only if its residual accounts for the worker's push before. Otherwise the
//     content of that push would count twice.
//   - A merge equals what merge.h computes from its pushes and the shard's residual, bit for bit:
//     update, weight, norm, clipping factors, and the residual afterwards.
//   - A snapshot of the residual equals the residual.
//
// The audit recomputes merges from the first snapshot on if the log begins in the middle of a run.
// The class reads no disk.
class ShardAudit {
 public:
  using LoadState =
      std::function<absl::StatusOr<std::vector<SegmentSnapshot>>(const SnapshotHeader& header)>;
  // Every merge with the accepted pushes of its round by worker, in the log's order.
  using OnMerge =
      std::function<absl::Status(const MergedRecord&, const std::map<uint32_t, PushRecord>&)>;

  // states: the shard's snapshots of kind kState, which `load` reads. on_merge may be empty.
  // `layout` outlives the audit.
  ShardAudit(const ShardAuditOptions& options, const Layout* layout,
             const std::vector<SnapshotHeader>& states, LoadState load, OnMerge on_merge);

  // The log's next record. Errors of `load` and `on_merge` are returned; errors of the log become
  // problems among the findings.
  absl::Status OnRecord(uint64_t sequence, const LogRecord& record);

  // After the last record.
  ShardFindings Finish();

  // The round after the last one in the log; nothing if the log does not mention the segment.
  std::optional<uint32_t> NextRound(uint32_t segment) const;

 private:
  struct SegmentAudit {
    std::optional<uint32_t> open_round;
    bool has_all_pushes = false;  // of the open round
    std::map<uint32_t, PushRecord> pushes;
    std::map<uint32_t, uint32_t> newest;         // last pushed round by worker
    std::optional<std::vector<float>> residual;  // E; nothing: unknown
    // Norm of the last merged update; 0: no update yet; nothing: unknown.
    std::optional<float> last_norm;
    std::vector<uint32_t> tile_sizes;
    std::vector<std::unique_ptr<const PayloadLayout>> formats;
  };

  absl::Status OnPush(uint64_t sequence, const PushRecord& push);
  absl::Status OnMerged(uint64_t sequence, const MergedRecord& merged);
  absl::Status OnRestored(const RestoredRecord& restored);
  // The log's first mention of a segment.
  absl::Status Begin(uint32_t segment, uint32_t round);
  // Compares the snapshot before `round`, if there is one, with the known state, or takes its
  // state.
  absl::Status UseState(uint32_t segment, uint32_t round);
  // Whether the merge's contributors are its round's pushes.
  bool CheckContributors(uint64_t sequence, const MergedRecord& merged);
  // Repeats the merge; false: the result differs.
  bool Recompute(uint64_t sequence, const MergedRecord& merged);
  absl::StatusOr<const PayloadLayout*> LayoutOf(SegmentAudit& segment,
                                                std::span<const std::byte> payload);
  SegmentAudit* Find(const FrameName& frame);
  template <typename... What>
  void Problem(uint64_t sequence, const FrameName& frame, const What&... what) {
    AddProblem(sequence, frame, absl::StrCat(what...));
  }
  void AddProblem(uint64_t sequence, const FrameName& frame, const std::string& what);

  const ShardAuditOptions options_;
  const Layout* const layout_;
  const LoadState load_;
  const OnMerge on_merge_;
  Merger merger_;
  uint32_t first_segment_ = 0;
  std::vector<SegmentAudit> segments_;
  std::map<std::pair<uint32_t, uint32_t>, SnapshotHeader> states_;  // by segment and round
  ShardFindings findings_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_AUDIT_SHARD_AUDIT_H_
