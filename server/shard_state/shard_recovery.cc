#include "server/shard_state/shard_recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/snapshot_content.h"

namespace longwave {
namespace {

// The first record of a log that begins in mid-run. As long as the log has it, the shard restores
// segments without a state snapshot, also after a restart.
constexpr absl::string_view kRestoreNote =
    "this log begins in mid-run: segments come from replicas";

// A copy, so that the payload does not keep the whole file in memory.
Buffer Copied(const Buffer& payload) {
  return Buffer(std::vector<std::byte>(payload.bytes().begin(), payload.bytes().end()));
}

absl::StatusOr<std::vector<SegmentSnapshot>> ReadState(SnapshotStore& snapshots,
                                                       const SnapshotHeader& header) {
  LONGWAVE_ASSIGN_OR_RETURN(const Buffer content, snapshots.Read(header.key));
  return DecodeStateContent(content, header.key.segment_count);
}

// The segment's latest state that leads to the log.
absl::StatusOr<SegmentProgress> ReadSegment(uint32_t segment, ShardStore& store,
                                            Aggregator& aggregator,
                                            std::vector<std::string>& notices) {
  const uint64_t first = store.log().recovery().first_sequence;
  SnapshotStore& snapshots = store.snapshots();
  std::string damaged;
  for (;;) {
    const auto latest = snapshots.Latest(SnapshotKind::kState, segment);
    if (!latest.has_value() || latest->replay_from < first) break;
    auto state = ReadState(snapshots, *latest);
    if (state.ok()) {
      SegmentSnapshot snapshot = std::move((*state)[segment - latest->key.first_segment]);
      if (snapshot.closed.has_value()) snapshot.closed->payload = Copied(snapshot.closed->payload);
      const SegmentProgress progress{
          .open_round = snapshot.open_round, .replay_from = latest->replay_from, .has_state = true};
      LONGWAVE_RETURN_IF_ERROR(aggregator.Restore(segment, std::move(snapshot)));
      return progress;
    }
    damaged = std::string(state.status().message());
    notices.push_back(damaged);
    // The store has set a damaged snapshot aside, and the one before is the latest now.
    if (snapshots.Latest(SnapshotKind::kState, segment) == latest) return state.status();
  }
  if (first == 1) return SegmentProgress{};  // the log has the segment from the beginning
  return DataLoss("segment ", segment, ": no state snapshot that leads to the log, which begins ",
                  "with record ", first, damaged.empty() ? "" : "; ", damaged);
}

}  // namespace

std::string RestoredText(const RestoredRecord& record) {
  return absl::StrCat("segment ", record.segment, " is restored: round ", record.round,
                      " is open, as worker ", record.worker,
                      " has it; what the shard held back is lost");
}

absl::StatusOr<RecoveredShard> RecoverSegments(const RecoveryOptions& options, ShardStore& store,
                                               Aggregator& aggregator,
                                               std::vector<std::string>& notices) {
  DeltaLog& log = store.log();
  const uint64_t next_sequence = log.recovery().next_sequence;
  RecoveredShard recovered{.progress = {}, .replayed_from = next_sequence};
  if (next_sequence == 1 && options.restore) {
    LONGWAVE_RETURN_IF_ERROR(log.Append(NoteRecord{0, std::string(kRestoreNote)}).status());
    LONGWAVE_RETURN_IF_ERROR(log.Sync());
    recovered.restores = true;
  }
  const uint32_t begin = options.segments.begin, end = options.segments.end;
  for (uint32_t segment = begin; segment < end; ++segment) {
    LONGWAVE_ASSIGN_OR_RETURN(const SegmentProgress progress,
                              ReadSegment(segment, store, aggregator, notices));
    recovered.replayed_from = std::min(recovered.replayed_from, progress.replay_from);
    recovered.progress.push_back(progress);
  }
  const auto replay = [&](uint64_t sequence, const LogRecord& record) -> absl::Status {
    if (const auto* note = std::get_if<NoteRecord>(&record))
      recovered.restores |= note->text == kRestoreNote;
    if (const auto* push = std::get_if<PushRecord>(&record))
      return aggregator.Replay(PushRecord{push->header, Copied(push->payload)});
    const auto* restored = std::get_if<RestoredRecord>(&record);
    const bool is_mine = restored != nullptr && options.segments.Contains(restored->segment);
    // Other segments are read from earlier records on than the one with the state after this.
    if (is_mine && sequence < recovered.progress[restored->segment - begin].replay_from)
      return absl::OkStatus();
    LONGWAVE_RETURN_IF_ERROR(aggregator.Replay(record));
    if (is_mine) {
      notices.push_back(RestoredText(*restored));
      recovered.progress[restored->segment - begin] = {.open_round = restored->round,
                                                       .first_round = restored->round,
                                                       .replay_from = sequence + 1,
                                                       .has_state = true,
                                                       .state_is_due = true};
    }
    const auto* merged = std::get_if<MergedRecord>(&record);
    if (merged == nullptr) return absl::OkStatus();
    // Replay has checked the segment.
    SegmentProgress& progress = recovered.progress[merged->header.segment - begin];
    if (merged->header.round < progress.open_round) return absl::OkStatus();
    progress.open_round = merged->header.round + 1;
    progress.replay_from = sequence + 1;
    // The shard may have ended before it wrote a state snapshot.
    progress.state_is_due |= StateIsDueAfter(merged->header, options.state_rounds);
    return absl::OkStatus();
  };
  LONGWAVE_RETURN_IF_ERROR(log.Replay(recovered.replayed_from, replay));
  for (uint32_t segment = begin; segment < end; ++segment) {
    const uint32_t open_round = aggregator.open_round(segment);
    const bool is_to_come = recovered.restores && !recovered.progress[segment - begin].has_state;
    if (is_to_come || open_round >= options.rounds) continue;
    return FailedPrecondition("the folder is from an older time: segment ", segment,
                              " has the rounds before ", open_round, ", wanted all before ",
                              options.rounds, ", which the run has finished. ", kShardWayOut);
  }
  return recovered;
}

std::optional<uint64_t> LogNeededFrom(const SnapshotStore& snapshots, SegmentRange segments,
                                      bool models) {
  struct Kept {
    size_t count = 0;
    uint64_t replay_from = ~uint64_t{0};
  };
  std::vector<Kept> of_states(segments.end - segments.begin);
  std::vector<Kept> of_models(of_states.size());
  for (const SnapshotHeader& header : snapshots.All()) {
    if (header.key.kind == SnapshotKind::kStart) continue;  // needed only while the log is complete
    auto& kept = header.key.kind == SnapshotKind::kState ? of_states : of_models;
    for (uint32_t i = 0; i < header.key.segment_count; ++i) {
      if (!segments.Contains(header.key.first_segment + i)) continue;
      Kept& of_segment = kept[header.key.first_segment + i - segments.begin];
      ++of_segment.count;
      of_segment.replay_from = std::min(of_segment.replay_from, header.replay_from);
    }
  }
  uint64_t from = ~uint64_t{0};
  const auto cover = [&](const std::vector<Kept>& kept) {
    for (const Kept& each : kept) {
      if (each.count < kSnapshotsKept) return false;
      from = std::min(from, each.replay_from);
    }
    return true;
  };
  if (!cover(of_states) || (models && !cover(of_models))) return std::nullopt;
  return from;
}

}  // namespace longwave
