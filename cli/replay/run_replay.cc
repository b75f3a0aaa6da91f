#include "cli/replay/run_replay.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/replay/model_replay.h"
#include "common/base/status_macros.h"
#include "server/audit/log_reader.h"
#include "server/shard/tile_threads.h"
#include "server/store/posix_file_system.h"
#include "server/store/snapshot_content.h"
#include "server/store/snapshot_store.h"

namespace longwave {
namespace {

// Checks that every recorded round is in the log of each segment, or in a snapshot before the log.
void CheckLastRounds(const RunReplayInput& input, uint32_t shard, const ShardAudit& audit,
                     const std::vector<SnapshotHeader>& snapshots,
                     std::vector<std::string>& problems) {
  uint32_t recorded = 0;
  for (const RecordedRound& each : input.recorded) recorded = std::max(recorded, each.round + 1);
  const auto segments = input.layout->segments();
  for (uint32_t s = 0; s < segments.size(); ++s) {
    if (segments[s].shard != shard) continue;
    uint32_t next = audit.NextRound(s).value_or(0);
    for (const SnapshotHeader& snapshot : snapshots) {
      if (s - snapshot.key.first_segment < snapshot.key.segment_count) {
        next = std::max(next, snapshot.key.round);
      }
    }
    if (next >= recorded) continue;
    problems.push_back(absl::StrCat("shard ", shard, ", segment ", s, ": has the rounds before ",
                                    next, ", and the run has finished all before ", recorded,
                                    ": the folder is from an older time"));
  }
}

// Replays a shard's folder: its log through the audit, its merged updates into the model.
absl::StatusOr<RunReplayReport::Shard> ReplayShard(const RunReplayInput& input, uint32_t shard,
                                                   uint64_t* run, ModelReplay* model,
                                                   FileSystem& files,
                                                   std::vector<std::string>& problems) {
  const std::string& folder = input.shard_folders[shard];
  const std::string snapshots = JoinPath(folder, "snap");
  LONGWAVE_ASSIGN_OR_RETURN(LogReader log, LogReader::Open(&files, JoinPath(folder, "log")));
  if (shard == 0) *run = log.identity().run;
  LONGWAVE_RETURN_IF_ERROR(CheckIdentity(
      folder, log.identity(), {.run = *run, .shard = shard, .layout_hash = input.layout->hash()}));
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<SnapshotHeader> headers,
                            ListSnapshots(files, snapshots, log.identity()));
  const auto read = [&files, snapshots](const SnapshotHeader& header) {
    return ReadSnapshot(files, snapshots, header);
  };
  if (model != nullptr) model->AddModels(headers, read);

  ShardAuditOptions options{.run = *run,
                            .shard = shard,
                            .merge = MergeOptionsOf(*input.config),
                            .clip = input.config->sync.clip,
                            .from_the_start = log.first_sequence() == 1};
  if (input.threads > 1) options.threads = std::make_shared<TileThreads>(input.threads);
  ShardAudit audit(
      options, input.layout, headers,
      [&read](const SnapshotHeader& header) -> absl::StatusOr<std::vector<SegmentSnapshot>> {
        LONGWAVE_ASSIGN_OR_RETURN(const Buffer content, read(header));
        return DecodeStateContent(content, header.key.segment_count);
      },
      [model](const MergedRecord& merged, const auto&) {
        return model == nullptr
                   ? absl::OkStatus()
                   : model->Apply(merged.header.segment, merged.header.round, merged.payload);
      });
  LONGWAVE_RETURN_IF_ERROR(log.Read([&audit, model](uint64_t sequence, const LogRecord& record) {
    const auto* const restored = std::get_if<RestoredRecord>(&record);
    if (restored != nullptr && restored->round > 0 && model != nullptr)
      model->Forget(restored->segment);
    return audit.OnRecord(sequence, record);
  }));
  CheckLastRounds(input, shard, audit, headers, problems);
  return RunReplayReport::Shard{.findings = audit.Finish(),
                                .records = log.record_count(),
                                .first_sequence = log.first_sequence(),
                                .tail_bytes = log.tail_bytes()};
}

// The most hashes of segments that are stored for comparison.
constexpr size_t kHashesMax = size_t{1} << 24;

void RememberRecorded(const RunReplayInput& input, ModelReplay& model) {
  // With several fragments, segments are at different rounds when a report is made.
  if (FragmentCount(input.config->sync.fragments, *input.layout) > 1) return;
  const size_t count = std::min(input.recorded.size(),
                                std::max<size_t>(kHashesMax / input.layout->segments().size(), 1));
  std::vector<uint32_t> rounds;
  for (const RecordedRound& each : std::span(input.recorded).last(count)) {
    if (each.state_hash.has_value()) rounds.push_back(each.round);
  }
  model.Remember(rounds);
}

// Reports the first difference only, since later ones follow from it.
void CompareRecorded(const RunReplayInput& input, const ModelReplay& model,
                     RunReplayReport& report) {
  for (const RecordedRound& each : input.recorded) {
    const std::optional<uint64_t> hash = model.HashAfter(each.round);
    if (!each.state_hash.has_value() || !hash.has_value()) continue;
    ++report.rounds_compared;
    if (*hash == *each.state_hash) continue;
    report.model_problems.push_back(
        absl::StrFormat("round %d: the logs make a model with hash %016x, and the coordinator has "
                        "recorded %016x: has a shard gone on from a folder of an older time?",
                        each.round, *hash, *each.state_hash));
    return;
  }
}

absl::StatusOr<RunReplayReport> ReplayUntil(const RunReplayInput& input, uint32_t until,
                                            std::optional<uint32_t>* rounds_of_all) {
  RunReplayReport report;
  std::unique_ptr<ModelReplay> model;
  if (CanCatchUp(*input.config)) {
    LONGWAVE_ASSIGN_OR_RETURN(model, ModelReplay::Create(input.config, input.layout, input.initial,
                                                         input.threads, until, input.intervals));
  } else {
    report.why_no_state =
        absl::StrCat("under sync.update: ", std::string(Name(input.config->sync.update)),
                     " it is not a function of the merged updates alone");
  }
  if (model != nullptr) RememberRecorded(input, *model);
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  for (uint32_t shard = 0; shard < input.shard_folders.size(); ++shard) {
    LONGWAVE_ASSIGN_OR_RETURN(
        RunReplayReport::Shard replayed,
        ReplayShard(input, shard, &report.run, model.get(), *files, report.model_problems));
    report.shards.push_back(std::move(replayed));
  }
  if (model == nullptr) return report;
  const absl::StatusOr<ModelReplay::Result> result = model->Finish();
  if (result.ok()) {
    report.state_hash = result->state_hash;
    report.rounds = result->rounds;
    report.parameters = model->theta();
  } else if (absl::IsFailedPrecondition(result.status())) {
    report.why_no_state = std::string(result.status().message());
    *rounds_of_all = model->rounds_of_all();
  } else {
    return result.status();
  }
  report.models_compared = model->models_compared();
  report.model_problems.insert(report.model_problems.end(), model->problems().begin(),
                               model->problems().end());
  CompareRecorded(input, *model, report);
  return report;
}

}  // namespace

MergeOptions MergeOptionsOf(const RunConfig& config) {
  return {.run_seed = config.run.seed,
          .up = config.sync.up,
          .rho = config.sync.rho,
          .down = config.sync.down};
}

uint64_t RunReplayReport::problem_count() const {
  uint64_t count = model_problems.size();
  for (const Shard& shard : shards) count += shard.findings.problem_count;
  return count;
}

std::vector<std::string> RunReplayReport::problems() const {
  std::vector<std::string> all;
  for (const Shard& shard : shards) {
    all.insert(all.end(), shard.findings.problems.begin(), shard.findings.problems.end());
  }
  all.insert(all.end(), model_problems.begin(), model_problems.end());
  return all;
}

absl::StatusOr<RunReplayReport> ReplayRun(const RunReplayInput& input) {
  std::optional<uint32_t> rounds_of_all;
  absl::StatusOr<RunReplayReport> report = ReplayUntil(input, kRoundNever, &rounds_of_all);
  if (!report.ok() || !rounds_of_all.has_value()) return report;
  // The run ended in the middle of a round. The log is read again, up to the last whole one.
  report = ReplayUntil(input, *rounds_of_all, &rounds_of_all);
  if (report.ok()) report->ends_within_round = true;
  return report;
}

}  // namespace longwave
