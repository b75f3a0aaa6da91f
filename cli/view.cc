#include "cli/view.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/figures.h"
#include "common/base/print.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

constexpr size_t kSparklineColumns = 20;
constexpr size_t kNameColumns = 10;
// Rows of a table in the live view; further rows are only counted.
constexpr size_t kWorkerRowsMax = 16;
constexpr size_t kShardRowsMax = 8;

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

bool TakesPart(const WorkerState& state) {
  return !HasLeft(state.phase) && state.phase != WorkerPhase::kJoining;
}

Hue HueOf(const WorkerState& state, uint32_t foremost) {
  if (state.phase == WorkerPhase::kDone) return Hue::kGood;
  if (HasLeft(state.phase)) return Hue::kBad;
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
  std::ranges::sort(members, [](const MemberStatus& a, const MemberStatus& b) {
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
         absl::StrCat(RoundsDone(state)), FormatLoss(state.train_loss),
         seconds > 0 ? absl::StrFormat("%.0f %%", 100 * state.seconds_computing / seconds) : "-",
         FormatBytes(static_cast<double>(state.bytes.pushed)),
         FormatBytes(static_cast<double>(state.bytes.pulled)),
         absl::StrFormat("%.1f s", member.heartbeat_age_s)},
        absl::StrCat(std::max(1u, state.ranks)));
  }
  // step, computing, pulled, heard, pushed, round, loss
  return WithHues(table.Lines(style.width, {2, 5, 7, 8, 6, 3, 4}), hues);
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
                  state.open_round == kRoundNever ? "-" : absl::StrCat(state.open_round),
                  absl::StrCat(state.pushes_accepted), absl::StrCat(state.pushes_late),
                  absl::StrCat(state.pushes_rejected),
                  FormatBytes(static_cast<double>(state.bytes_received)),
                  FormatBytes(static_cast<double>(state.bytes_sent)),
                  FormatBytes(static_cast<double>(state.log_bytes + state.snapshot_bytes)),
                  absl::StrFormat("%.1f s", shard.heartbeat_age_s)});
  }
  // out, in, kept, rejected, heard, late, accepted, open round
  return WithHues(table.Lines(style.width, {7, 6, 8, 5, 9, 4, 3, 2}), hues);
}

// Bytes for each worker beside those of DDP and DiLoCo so far; in a narrow width only their ratios
// to it.
Lines TrafficTable(const Summary& summary, size_t width) {
  const double workers = std::max<uint32_t>(1, summary.workers);
  const double pushed = static_cast<double>(summary.bytes.pushed) / workers;
  const double pulled = static_cast<double>(summary.bytes.pulled) / workers;
  TextTable table, narrow;
  table.AddRow({"bytes a worker", "pushed", "", "pulled", ""});
  table.AddRow({"this run", FormatBytes(pushed), "", FormatBytes(pulled), ""});
  narrow.AddRow({"bytes a worker", "pushed", "pulled"});
  narrow.AddRow({"this run", FormatBytes(pushed), FormatBytes(pulled)});
  const auto add = [&](absl::string_view method, uint64_t total) {
    const double bytes = static_cast<double>(total) / workers;
    table.AddRow({absl::StrCat(method, " would have"), FormatBytes(bytes),
                  FormatRatio(bytes, pushed), FormatBytes(bytes), FormatRatio(bytes, pulled)});
    narrow.AddRow({std::string(method), FormatRatio(bytes, pushed), FormatRatio(bytes, pulled)});
  };
  add("DiLoCo (fp32)", summary.bytes_diloco_fp32());
  add("DDP (fp32)", summary.bytes_ddp_fp32());
  std::vector<std::string> lines = table.Lines();
  const bool fits = std::ranges::all_of(
      lines, [width](const std::string& line) { return DisplayWidth(line) <= width; });
  return WithHues(fits ? std::move(lines) : narrow.Lines(), {});
}

// "nobody", or "3 token, 1 expired".
std::string RefusalsText(const RunStatus& status) {
  std::string text;
  for (const RefusalCount& refusal : status.refusals)
    absl::StrAppend(&text, text.empty() ? "" : ", ", refusal.count, " ", refusal.reason);
  return text.empty() ? "nobody" : text;
}

// A value behind its name, in as many lines as the width wants.
Lines Row(std::string_view name, const std::string& value, size_t width, Hue hue = Hue::kPlain) {
  Lines lines;
  const std::string line = absl::StrFormat("%-*s%s", int{kNameColumns}, name, Printable(value));
  for (std::string& part : WrapWords(line, width, kNameColumns))
    lines.push_back({std::move(part), hue});
  return lines;
}

void Append(const Lines& more, Lines* lines) {
  lines->insert(lines->end(), more.begin(), more.end());
}

// The figures that a live view has no room for, or says beside its tables.
Lines Rows(const ViewInput& input, const Summary& record, size_t width) {
  const RunStatus& status = *input.status;
  Lines lines;
  const auto row = [&](std::string_view name, const std::string& value, Hue hue = Hue::kPlain) {
    Append(Row(name, value, width, hue), &lines);
  };
  const std::string state(input.end != nullptr ? Name(record.outcome) : Name(status.phase));
  // Of a run that `up` ends, the command's last line has the failure.
  const std::string why = input.end != nullptr                 ? ""
                          : status.phase == RunPhase::kWaiting ? status.trouble
                                                               : record.failure;
  row("state", absl::StrCat(state, ", epoch ", status.epoch, why.empty() ? "" : ": ", why),
      state == "finished" ? Hue::kGood
      : state == "failed" ? Hue::kBad
                          : Hue::kPlain);
  row("replicas", status.record_count == 0 ? "-, state -"
                                           : absl::StrCat(ReplicasText(record), ", state ",
                                                          FormatHash(record.state_hash)));
  const ByteCounts& bytes = record.bytes;
  row("bytes",
      absl::StrCat("pushed ", FormatBytes(static_cast<double>(bytes.pushed)), ", pulled ",
                   FormatBytes(static_cast<double>(bytes.pulled)), ", of them payload ",
                   FormatBytes(static_cast<double>(bytes.payload_pushed)), " and ",
                   FormatBytes(static_cast<double>(bytes.payload_pulled)), " (all workers)"));
  if (!record.expelled.empty()) row("expelled", absl::StrJoin(record.expelled, ", "));
  for (const std::string& line : TroubleLines(status)) row("trouble", line, Hue::kBad);
  // At the end of `up` they follow the view.
  for (const Warning& warning : status.warnings) {
    if (input.end == nullptr) row("warning", SentenceOf(warning), Hue::kDoubtful);
  }
  if (status.secured) row("security", absl::StrCat("on, refused ", RefusalsText(status)));
  if (!record.model_file.empty()) row("weights", record.model_file);
  return lines;
}

// The latest warnings, below an empty line.
Lines WarningNotes(const RunStatus& status) {
  constexpr size_t kShownMax = 2;
  const size_t count = status.warnings.size();
  if (count == 0) return {};
  Lines notes = {{""}};
  const size_t first = count - std::min(count, kShownMax);
  if (first > 0)
    notes.push_back({absl::StrCat("and ", first, " more warnings, which longwave status shows")});
  for (size_t i = first; i < count; ++i)
    notes.push_back({absl::StrCat("warning: ", SentenceOf(status.warnings[i])), Hue::kDoubtful});
  return notes;
}

// The reason for waiting, the failure or the troubles, below an empty line.
Lines Notes(const ViewInput& input) {
  const RunStatus& status = *input.status;
  std::string note = input.note.empty() ? input.notice : input.note;
  const bool has_failed = note.empty() && !status.failure.empty();
  if (has_failed) note = absl::StrCat("failed: ", status.failure);
  if (note.empty() && status.phase == RunPhase::kWaiting) note = WaitingNote(*input.config, status);
  if (!note.empty()) return {{""}, {note, has_failed ? Hue::kBad : Hue::kPlain}};
  Lines notes;
  for (std::string& trouble : TroubleLines(status))
    notes.push_back({std::move(trouble), Hue::kBad});
  if (!notes.empty()) notes.insert(notes.begin(), Line());
  return notes;
}

// "15 steps"; of an interval that is fitted also its bounds.
std::string IntervalText(const ViewInput& input) {
  const SyncSection& sync = input.config->sync;
  const auto steps = [](uint32_t count) {
    return absl::StrCat(count, count == 1 ? " step" : " steps");
  };
  if (!FitsInterval(*input.config)) return steps(sync.inner_steps);
  const std::string bounds =
      absl::StrCat("auto: ", sync.inner_steps_min, " to ", sync.inner_steps_max);
  const std::optional<IntervalStatus>& interval = input.status->interval;
  if (!interval.has_value()) return absl::StrCat(bounds, " steps");
  return absl::StrCat(steps(interval->inner_steps), " (", bounds, ")");
}

// "4/11", or "4" while the number of the run's rounds is not known.
std::string RoundOf(uint64_t rounds_done, uint64_t rounds) {
  return rounds > 0 ? absl::StrCat(rounds_done, "/", rounds) : absl::StrCat(rounds_done);
}

}  // namespace

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
  Lines lines;
  const auto row = [&](std::string_view name, const std::string& value) {
    Append(Row(name, value, style.width), &lines);
  };
  row("longwave",
      absl::StrCat("preset ", config.run.preset, ", a sync every ", IntervalText(input)));
  row("model", model);
  row("cluster", cluster);
  if (!input.run_folder.empty()) row("run", input.run_folder);
  const std::string few = FewRoundsSentence(config);
  if (!few.empty()) row("rounds", few);
  return Shown(lines, kPlainText);
}

std::vector<std::string> ViewLines(const ViewInput& input, const TextStyle& style) {
  const RunConfig& config = *input.config;
  const RunStatus& status = *input.status;
  const Summary record = input.end != nullptr ? *input.end
                                              : Summarize(config, status, RunOutcome::kStopped,
                                                          status.failure, input.elapsed_s);
  Lines lines;
  const auto add = [&lines](std::string text, Hue hue = Hue::kPlain) {
    lines.push_back({std::move(text), hue});
  };
  for (std::string& line : HeaderLines(input, style)) add(std::move(line));
  add("");

  const double share = config.run.steps > 0 ? static_cast<double>(record.steps) /
                                                  static_cast<double>(config.run.steps)
                                            : 0;
  const std::string progress =
      absl::StrFormat("%3.0f %%  step %d/%d  round %s", std::floor(100 * share), record.steps,
                      config.run.steps, RoundOf(record.rounds, RoundsOf(config, status)));
  const size_t columns = DisplayWidth(progress) + 1;
  const size_t bar_width = style.width > columns + 3 ? style.width - columns : 0;
  add(input.is_whole   ? absl::StrCat("progress ", progress)
      : bar_width == 0 ? progress
                       : absl::StrCat(ProgressBar(share, std::min<size_t>(bar_width, 60), style),
                                      " ", progress));
  add(absl::StrCat("elapsed ", FormatDuration(input.elapsed_s), "   left ",
                   FormatDuration(SecondsLeft(config, status)), "   ",
                   FormatCount(TokensPerSecond(status)), " tokens/s"));
  std::string losses = absl::StrCat("loss    training ", FormatLoss(TrainLoss(status)),
                                    "   validation ", FormatLoss(record.val_loss));
  const std::string spark = Sparkline(ValidationLosses(status), kSparklineColumns, style);
  if (!spark.empty() && !input.is_whole) absl::StrAppend(&losses, "  ", spark);
  add(losses);
  if (status.interval.has_value() && !status.interval->reason.empty()) {
    Append(Row("interval",
               absl::StrCat(status.interval->reason, " (since round ", status.interval->first_round,
                            ")"),
               style.width),
           &lines);
  }
  if (!status.inequality.empty() && !record.replicas_may_differ)
    add(absl::StrCat("replicas differ: ", status.inequality), Hue::kBad);
  if (input.restarts > 0 || status.repairs > 0) {
    add(absl::StrCat("mended  processes started again ", input.restarts, "   replicas repaired ",
                     status.repairs));
  }
  if (input.is_whole) Append(Rows(input, record, style.width), &lines);
  add("");
  Append(TrafficTable(record, style.width), &lines);

  const Lines worker_table = WorkerTable(status, style);
  const Lines shard_table = ShardTable(status, style);
  if (input.is_whole) {
    // A path that is wider than the terminal stays whole.
    TextStyle uncut = style;
    uncut.width = kPlainText.width;
    Append(Below(worker_table, worker_table.size(), "workers"), &lines);
    Append(Below(shard_table, shard_table.size(), "shards"), &lines);
    return Shown(lines, uncut);
  }
  Lines notes = WarningNotes(status);
  Append(Notes(input), &notes);
  size_t worker_rows = kWorkerRowsMax;
  Lines workers = Below(worker_table, worker_rows, "workers");
  Lines shards = Below(shard_table, kShardRowsMax, "shards");
  const auto overflows = [&](size_t size) { return size + notes.size() > style.height; };
  if (overflows(lines.size() + workers.size() + shards.size())) shards.clear();
  while (worker_rows > 0 && overflows(lines.size() + workers.size())) {
    workers = Below(worker_table, --worker_rows, "workers");
  }
  if (overflows(lines.size() + workers.size())) workers.clear();
  if (overflows(lines.size())) lines.resize(style.height - std::min(style.height, notes.size()));
  for (const Lines* part : {&workers, &shards, &notes}) Append(*part, &lines);
  return Shown(lines, style);
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
