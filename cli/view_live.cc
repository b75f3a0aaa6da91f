#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/view.h"
#include "common/base/figures.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

constexpr size_t kSparklineColumns = 20;
constexpr size_t kHeaderNameColumns = 10;
// Rows of a table in the live view; further rows are only counted.
constexpr size_t kWorkerRowsMax = 16;
constexpr size_t kShardRowsMax = 8;

std::string Loss(const std::optional<double>& loss) { return loss ? FormatLoss(*loss) : "-"; }

std::vector<double> ValidationLosses(const RunStatus& status) {
  std::vector<double> losses;
  for (const RoundRecord& record : status.records) {
    if (record.validation_loss) losses.push_back(*record.validation_loss);
  }
  return losses;
}

std::string WaitingNote(const RunConfig& config, const RunStatus& status) {
  return absl::StrCat("waiting: ", status.members.size(), " of ", config.run.workers,
                      " workers and ", status.shards.size(), " of ", config.run.shards,
                      " shards are here");
}

struct Line {
  std::string text;
  Hue hue = Hue::kPlain;
};
using Lines = std::vector<Line>;

std::vector<std::string> Shown(const Lines& lines, const TextStyle& style) {
  std::vector<std::string> shown;
  for (const Line& line : lines)
    shown.push_back(Painted(FitWidth(Printable(line.text), style.width), line.hue, style));
  return shown;
}

// The lines of a table, with hues for the rows below its head.
Lines WithHues(std::vector<std::string> table, const std::vector<Hue>& hues) {
  Lines lines;
  for (std::string& line : table) lines.push_back({std::move(line)});
  for (size_t i = 0; i < hues.size(); ++i) lines[i + 1].hue = hues[i];
  return lines;
}

// An empty line and the table, with at most `rows_max` rows below its head.
Lines Below(const Lines& table, size_t rows_max, absl::string_view noun) {
  if (table.size() <= 1) return {};  // the head alone
  Lines lines = {{""}};
  const size_t rows = table.size() - 1;
  for (size_t i = 0; i < std::min(rows, rows_max) + 1; ++i) lines.push_back(table[i]);
  if (rows > rows_max) lines.push_back({absl::StrCat("and ", rows - rows_max, " more ", noun)});
  return lines;
}

bool IsGone(WorkerPhase phase) {
  return phase == WorkerPhase::kLost || phase == WorkerPhase::kFailed ||
         phase == WorkerPhase::kExpelled;
}

bool TakesPart(const WorkerState& state) {
  return !IsGone(state.phase) && state.phase != WorkerPhase::kJoining;
}

Hue HueOf(const WorkerState& state, uint32_t foremost) {
  if (state.phase == WorkerPhase::kDone) return Hue::kGood;
  if (IsGone(state.phase)) return Hue::kBad;
  return !TakesPart(state) || foremost > state.round + 1 ? Hue::kDoubtful : Hue::kPlain;
}

// With a column of ranks if some worker has several.
Lines WorkerTable(const RunStatus& status, const TextStyle& style) {
  TextTable table;
  const bool has_nodes = std::ranges::any_of(
      status.members, [](const MemberStatus& member) { return member.state.ranks > 1; });
  const auto add = [&](std::vector<std::string> row, std::string ranks) {
    if (has_nodes) row.push_back(std::move(ranks));
    table.AddRow(std::move(row));
  };
  add({"worker", "state", "step", "round", "loss", "computing", "pushed", "pulled", "heard"},
      "ranks");
  // Sorted by name, worker-10 after worker-9; workers register in any order.
  std::vector<MemberStatus> members = status.members;
  std::sort(members.begin(), members.end(), [](const MemberStatus& a, const MemberStatus& b) {
    const std::string &left = a.member.name, &right = b.member.name;
    return std::tuple(left.size(), left) < std::tuple(right.size(), right);
  });
  uint32_t foremost = 0;
  for (const MemberStatus& member : members) {
    if (TakesPart(member.state)) foremost = std::max(foremost, member.state.round);
  }
  std::vector<Hue> hues;
  for (const MemberStatus& member : members) {
    const WorkerState& state = member.state;
    hues.push_back(HueOf(state, foremost));
    const double seconds = state.seconds_computing + state.seconds_syncing;
    add({member.member.name, std::string(Name(state.phase)), absl::StrCat(state.step),
         absl::StrCat(RoundsDone(state)), state.step > 0 ? FormatLoss(state.train_loss) : "-",
         seconds > 0 ? absl::StrFormat("%.0f %%", 100 * state.seconds_computing / seconds) : "-",
         FormatBytes(static_cast<double>(state.bytes.pushed)),
         FormatBytes(static_cast<double>(state.bytes.pulled)),
         absl::StrFormat("%.1f s", member.heartbeat_age_s)},
        absl::StrCat(std::max(1u, state.ranks)));
  }
  // step, computing, pulled, heard, pushed
  return WithHues(table.Lines(style.width, {2, 5, 7, 8, 6}), hues);
}

Lines ShardTable(const RunStatus& status, const TextStyle& style) {
  TextTable table;
  std::vector<Hue> hues;
  table.AddRow({"shard", "state", "open round", "accepted", "late", "rejected", "in", "out", "kept",
                "heard"});
  for (const ShardStatus& shard : status.shards) {
    const ShardState& state = shard.state;
    hues.push_back(shard.silent || !shard.trouble.empty() ? Hue::kBad : Hue::kPlain);
    table.AddRow({absl::StrCat("shard-", shard.shard.shard), std::string(Name(shard)),
                  absl::StrCat(state.open_round), absl::StrCat(state.pushes_accepted),
                  absl::StrCat(state.pushes_late), absl::StrCat(state.pushes_rejected),
                  FormatBytes(static_cast<double>(state.bytes_received)),
                  FormatBytes(static_cast<double>(state.bytes_sent)),
                  FormatBytes(static_cast<double>(state.log_bytes + state.snapshot_bytes)),
                  absl::StrFormat("%.1f s", shard.heartbeat_age_s)});
  }
  // out, in, kept, rejected, heard, late
  return WithHues(table.Lines(style.width, {7, 6, 8, 5, 9, 4}), hues);
}

}  // namespace

double TrainLoss(const RunStatus& status) {
  double sum = 0;
  size_t count = 0;
  for (const MemberStatus& member : status.members) {
    // The mean leaves out a worker that ended with a loss that is not finite.
    if (member.state.step == 0 || !std::isfinite(member.state.train_loss)) continue;
    sum += member.state.train_loss;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

double TokensPerSecond(const RunStatus& status) {
  if (!status.records.empty()) return status.records.back().tokens_per_second;
  double tokens = 0;
  for (const MemberStatus& member : status.members)
    tokens += static_cast<double>(member.state.tokens);
  return status.seconds > 0 ? tokens / status.seconds : 0;
}

std::string_view Name(const ShardStatus& shard) {
  if (shard.silent) return "silent";
  return shard.trouble.empty() ? "up" : "trouble";
}

uint32_t RoundsDone(const WorkerState& state) {
  const bool after_round =
      state.phase == WorkerPhase::kValidating || state.phase == WorkerPhase::kDone;
  return state.round + (after_round ? 1 : 0);
}

double SecondsLeft(const RunConfig& config, const RunStatus& status) {
  const uint64_t done = StepsDone(status);
  if (done == 0 || status.seconds <= 0) return std::numeric_limits<double>::quiet_NaN();
  const uint64_t left = config.run.steps - std::min(done, config.run.steps);
  return status.seconds * static_cast<double>(left) / static_cast<double>(done);
}

std::vector<std::string> HeaderLines(const ViewInput& input, const TextStyle& style) {
  const RunConfig& config = *input.config;
  std::string model = "the workers' own";
  if (config.model.kind == "gpt") {
    model = absl::StrCat(config.model.kind, ", d ", config.model.d_model, ", ", config.model.layers,
                         " layers, ", config.model.heads, " heads, context ", config.model.context);
  }
  if (input.status->parameters > 0) {
    absl::StrAppend(&model, ", ", FormatCount(static_cast<double>(input.status->parameters)),
                    " parameters");
  }
  std::string cluster =
      absl::StrCat(config.run.workers, config.run.workers == 1 ? " worker, " : " workers, ",
                   config.run.shards, config.run.shards == 1 ? " shard" : " shards");
  if (!input.coordinator_address.empty()) {
    absl::StrAppend(&cluster, ", coordinator at ", input.coordinator_address);
  }
  std::vector<std::string> lines = {
      absl::StrCat("longwave  preset ", config.run.preset, ", a sync every ",
                   config.sync.inner_steps, config.sync.inner_steps == 1 ? " step" : " steps"),
      absl::StrCat("model     ", model),
      absl::StrCat("cluster   ", cluster),
  };
  if (!input.run_folder.empty()) lines.push_back(absl::StrCat("run       ", input.run_folder));
  const std::string few = FewRoundsSentence(config);
  if (!few.empty()) lines.push_back(absl::StrCat("rounds    ", few));
  std::vector<std::string> wrapped;
  for (const std::string& line : lines) {
    for (std::string& part : WrapWords(line, style.width, kHeaderNameColumns))
      wrapped.push_back(std::move(part));
  }
  return wrapped;
}

std::vector<std::string> LiveLines(const ViewInput& input, const TextStyle& style) {
  const RunConfig& config = *input.config;
  const RunStatus& status = *input.status;
  Lines lines;
  const auto add = [&lines](std::string text, Hue hue = Hue::kPlain) {
    lines.push_back({std::move(text), hue});
  };
  for (std::string& line : HeaderLines(input, style)) add(std::move(line));
  add("");

  const uint64_t steps = StepsDone(status);
  const double share =
      config.run.steps > 0 ? static_cast<double>(steps) / static_cast<double>(config.run.steps) : 0;
  const std::string progress =
      absl::StrFormat(" %3.0f %%  step %d/%d  round %d/%d", std::floor(100 * share), steps,
                      config.run.steps, RoundsDone(status), RoundCount(config));
  const size_t bar_width =
      style.width > DisplayWidth(progress) + 10 ? style.width - DisplayWidth(progress) : 10;
  add(absl::StrCat(ProgressBar(share, std::min<size_t>(bar_width, 60), style), progress));
  add(absl::StrCat("elapsed ", FormatDuration(input.elapsed_s), "   left ",
                   FormatDuration(SecondsLeft(config, status)), "   ",
                   FormatCount(TokensPerSecond(status)), " tokens/s"));
  std::string losses = absl::StrCat("loss    training ", FormatLoss(TrainLoss(status)),
                                    "   validation ", Loss(status.validation_loss));
  const std::string spark = Sparkline(ValidationLosses(status), kSparklineColumns, style);
  if (!spark.empty()) absl::StrAppend(&losses, "  ", spark);
  add(losses);
  if (!status.inequality.empty() && PromisesEqualReplicas(config))
    add(absl::StrCat("replicas differ: ", status.inequality), Hue::kBad);
  if (input.restarts > 0 || status.repairs > 0) {
    add(absl::StrCat("mended  processes started again ", input.restarts, "   replicas repaired ",
                     status.repairs));
  }

  const Summary so_far = Summarize(config, status, RunOutcome::kStopped, "", input.elapsed_s);
  add("");
  for (std::string& line : TrafficLines(so_far, style.width)) add(std::move(line));

  Lines notes;
  std::string note = input.note.empty() ? input.notice : input.note;
  const bool has_failed = note.empty() && !status.failure.empty();
  if (has_failed) note = absl::StrCat("failed: ", status.failure);
  if (note.empty() && status.phase == RunPhase::kWaiting) note = WaitingNote(config, status);
  if (!note.empty()) {
    notes = {{""}, {note, has_failed ? Hue::kBad : Hue::kPlain}};
  } else {
    for (std::string& trouble : TroubleLines(status))
      notes.push_back({std::move(trouble), Hue::kBad});
    if (!notes.empty()) notes.insert(notes.begin(), Line());
  }

  const Lines worker_table = WorkerTable(status, style);
  size_t worker_rows = kWorkerRowsMax;
  Lines workers = Below(worker_table, worker_rows, "workers");
  Lines shards = Below(ShardTable(status, style), kShardRowsMax, "shards");
  const auto overflows = [&](size_t size) { return size + notes.size() > style.height; };
  if (overflows(lines.size() + workers.size() + shards.size())) shards.clear();
  while (worker_rows > 0 && overflows(lines.size() + workers.size())) {
    workers = Below(worker_table, --worker_rows, "workers");
  }
  if (overflows(lines.size() + workers.size())) workers.clear();
  if (overflows(lines.size())) lines.resize(style.height - std::min(style.height, notes.size()));
  for (const Lines* part : {&workers, &shards, &notes}) {
    lines.insert(lines.end(), part->begin(), part->end());
  }
  return Shown(lines, style);
}

std::vector<std::string> WorkerLines(const RunStatus& status, const TextStyle& style) {
  return Shown(WorkerTable(status, style), style);
}

std::vector<std::string> ShardLines(const RunStatus& status, const TextStyle& style) {
  return Shown(ShardTable(status, style), style);
}

std::vector<std::string> TroubleLines(const RunStatus& status) {
  std::vector<std::string> lines;
  // Before a run begins, the lines of its progress show the processes that are present.
  if (!status.trouble.empty() && status.phase != RunPhase::kWaiting) {
    lines.push_back(status.trouble);
  }
  for (const ShardStatus& shard : status.shards) {
    const std::string who = absl::StrCat("shard-", shard.shard.shard);
    if (!shard.trouble.empty())
      lines.push_back(absl::StrCat(who, " takes no pushes: ", shard.trouble));
    if (!shard.complaint.empty()) lines.push_back(absl::StrCat(who, ": ", shard.complaint));
  }
  return lines;
}

}  // namespace longwave
