// Audits a finished run of integer workers. tests/chaos/chaos.py lays the folder out:
//
//   chaos_audit RUN_FOLDER
//
//   config.yaml                the run's configuration
//   archive/shard-N/           all log files of shard N
//   state/shard-N/snap/        its snapshots
//   final/NAME/checkpoint      worker NAME's last state if it ended well, else
//   state/NAME/checkpoint      likewise
//   final/NAME/anchor          its last replica, fp32
//   journal/NAME               its log of events, a line each (journal.h)

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/replay/run_replay.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "server/audit/log_reader.h"
#include "server/audit/shard_audit.h"
#include "server/store/posix_file_system.h"
#include "server/store/snapshot_content.h"
#include "server/store/snapshot_store.h"
#include "tests/chaos/integer_books.h"
#include "tests/chaos/steps_pushed.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_parts.h"
#include "worker/checkpoint/push_journal.h"
#include "worker/checkpoint/recovery.h"
#include "worker/checkpoint/worker_folder.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

struct Journal {
  std::set<uint32_t> posted;   // rounds
  std::set<uint32_t> partial;  // steps: see IntegerBooks::CheckWorker
  // The worker gave up its residual once, since it came back at a moment in which only its
  // optimizer could be used again. The audit reports that and cannot check its books.
  bool dropped = false;
};

void AddSteps(uint64_t first, uint64_t end, std::set<uint32_t>* steps) {
  for (uint64_t step = first; step < end; ++step) steps->insert(static_cast<uint32_t>(step));
}

Journal ReadJournal(const std::string& path) {
  Journal journal;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    uint32_t round = 0;
    words >> word >> round;
    if (word == "post") journal.posted.insert(round);
    uint32_t end = 0;
    if (word == "since" && words >> end) AddSteps(round, end, &journal.partial);
    if (word == "dropped" || word == "unknown") journal.dropped = true;
  }
  return journal;
}

// Runs the shard's logs through the audit and the books.
absl::StatusOr<ShardFindings> AuditShard(const std::string& run, const RunConfig& config,
                                         const Layout& layout, uint32_t shard, FileSystem& files,
                                         IntegerBooks& books, uint32_t* rounds) {
  LONGWAVE_ASSIGN_OR_RETURN(LogReader log,
                            LogReader::Open(&files, absl::StrCat(run, "/archive/shard-", shard)));
  if (log.first_sequence() != 1) {
    return absl::DataLossError("the archive of the log does not begin with its first record");
  }
  const std::string folder = absl::StrCat(run, "/state/shard-", shard, "/snap");
  LONGWAVE_ASSIGN_OR_RETURN(const auto headers, ListSnapshots(files, folder, log.identity()));
  ShardAudit audit(
      {.run = log.identity().run,
       .shard = shard,
       .merge = MergeOptionsOf(config),
       .clip = config.sync.clip,
       .from_the_start = true},
      &layout, headers,
      [&](const SnapshotHeader& header) -> absl::StatusOr<std::vector<SegmentSnapshot>> {
        LONGWAVE_ASSIGN_OR_RETURN(const Buffer content, ReadSnapshot(files, folder, header));
        return DecodeStateContent(content, header.key.segment_count);
      },
      [&](const MergedRecord& merged, const std::map<uint32_t, PushRecord>& pushes) {
        *rounds = std::max(*rounds, merged.header.round + 1);
        return books.Merge(merged, pushes);
      });
  LONGWAVE_RETURN_IF_ERROR(log.Read([&](uint64_t sequence, const LogRecord& record) {
    return audit.OnRecord(sequence, record);
  }));
  return audit.Finish();
}

absl::StatusOr<std::vector<float>> ReadFloats(FileSystem& files, const std::string& path) {
  LONGWAVE_ASSIGN_OR_RETURN(const Buffer whole, ReadWhole(files, path, uint64_t{1} << 32));
  const auto* begin = reinterpret_cast<const float*>(whole.bytes().data());
  return std::vector<float>(begin, begin + whole.size() / sizeof(float));
}

// Makes of a worker's checkpoint what its next process would go on from.
absl::Status GoOnFrom(FileSystem& files, const std::string& folder, const Layout& layout,
                      Checkpoint* checkpoint, Journal* journal) {
  LONGWAVE_ASSIGN_OR_RETURN(const auto records,
                            ReadJournals(files, folder, checkpoint->write, nullptr));
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t end, StepsPushed(files, folder, checkpoint->write));
  AddSteps(checkpoint->step, end, &journal->partial);
  return ApplyJournal(layout, {.beta = 1, .alpha = 1}, records, checkpoint);
}

absl::StatusOr<uint64_t> Audit(const std::string& run) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(run + "/config.yaml"));
  LONGWAVE_ASSIGN_OR_RETURN(const Manifest manifest, GptManifest(config.model));
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout,
                            Layout::Create(manifest, LayoutOptionsFor(config, manifest)));
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  IntegerBooks books(&layout);
  ShardFindings all;
  std::vector<std::string> problems;
  uint32_t rounds = 0;
  for (uint32_t shard = 0; shard < config.run.shards; ++shard) {
    LONGWAVE_ASSIGN_OR_RETURN(const ShardFindings found,
                              AuditShard(run, config, layout, shard, *files, books, &rounds));
    all.pushes += found.pushes;
    all.merges += found.merges;
    all.merges_recomputed += found.merges_recomputed;
    all.states_compared += found.states_compared;
    all.pushes_open += found.pushes_open;
    all.segments_restored += found.segments_restored;
    all.problem_count += found.problem_count;
    problems.insert(problems.end(), found.problems.begin(), found.problems.end());
  }
  const uint64_t wanted = uint64_t{rounds} * layout.segments().size();
  if (all.merges != wanted) {
    problems.push_back(
        absl::StrCat("got ", all.merges, " merges, wanted one a segment and round, ", wanted));
    ++all.problem_count;
  }
  std::printf(
      "audit: %u rounds, %llu pushes accepted, %llu merges, %llu made again bit for bit, "
      "%llu snapshots compared, %llu pushes in open rounds\n",
      rounds, static_cast<unsigned long long>(all.pushes),
      static_cast<unsigned long long>(all.merges),
      static_cast<unsigned long long>(all.merges_recomputed),
      static_cast<unsigned long long>(all.states_compared),
      static_cast<unsigned long long>(all.pushes_open));

  uint32_t replicas = 0;
  for (const auto& entry : fs::directory_iterator(run + "/journal")) {
    const std::string name = entry.path().filename().string();
    Journal journal = ReadJournal(entry.path().string());
    const std::string end = absl::StrCat(run, "/final/", name);
    const bool ended_well = fs::exists(end + "/checkpoint");
    const std::string folder = ended_well ? end : absl::StrCat(run, "/state/", name);
    if (journal.dropped) {
      std::printf("audit: %s gave its residual up once; its books are not closed\n", name.c_str());
    } else if (!fs::exists(folder + "/checkpoint")) {
      problems.push_back(absl::StrCat(name, ": has no checkpoint"));
      ++all.problem_count;
    } else {
      LONGWAVE_ASSIGN_OR_RETURN(Checkpoint checkpoint,
                                ReadCheckpoint(*files, folder + "/checkpoint", ShapeOf(layout)));
      if (!ended_well)
        LONGWAVE_RETURN_IF_ERROR(GoOnFrom(*files, folder, layout, &checkpoint, &journal));
      LONGWAVE_ASSIGN_OR_RETURN(
          const uint64_t steps,
          books.CheckWorker(checkpoint.worker, checkpoint, journal.posted, journal.partial));
      std::printf("audit: %s: %llu steps, each sent or kept once (%s), and %zu in part\n",
                  name.c_str(), static_cast<unsigned long long>(steps),
                  ended_well ? "at its end" : "by its checkpoint", journal.partial.size());
    }
    const std::string anchor = end + "/anchor";
    if (fs::exists(anchor)) {
      LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> parameters, ReadFloats(*files, anchor));
      books.CheckReplica(name, parameters);
      ++replicas;
    }
  }
  if (replicas == 0) {
    problems.push_back("no replica reached the end");
    ++all.problem_count;
  }
  problems.insert(problems.end(), books.problems().begin(), books.problems().end());
  for (const std::string& problem : problems) std::printf("problem: %s\n", problem.c_str());
  const uint64_t found = all.problem_count + books.problem_count();
  std::printf(
      "audit: %u replicas equal to the books of %llu parameters, %llu values checked, "
      "%llu problems\n",
      replicas, static_cast<unsigned long long>(books.element_count()),
      static_cast<unsigned long long>(books.values_checked()),
      static_cast<unsigned long long>(found));
  return found;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "chaos_audit: wanted the run's folder\n");
    return 2;
  }
  const auto problems = longwave::Audit(argv[1]);
  if (!problems.ok()) {
    std::fprintf(stderr, "chaos_audit: failed: %s\n",
                 std::string(problems.status().message()).c_str());
    return 1;
  }
  return *problems == 0 ? 0 : 1;
}
