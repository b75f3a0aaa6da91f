#include "tests/intruder/run_watch.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/intruder/mutation.h"

namespace longwave {
namespace {

// An undisturbed round of these runs takes less than a second, but the machine is shared.
constexpr absl::Duration kPauseMax = absl::Seconds(30);
// The run waits cluster.start_timeout_s for a worker that does not report its end.
constexpr absl::Duration kEndMax = absl::Seconds(90);
constexpr uint64_t kGrowthBytesMax = uint64_t{300} << 20;
constexpr absl::Duration kPagesEvery = absl::Seconds(3);

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The children of a process, by the names in their command lines.
std::map<pid_t, std::string> ChildrenOf(pid_t pid) {
  std::map<pid_t, std::string> children;
  std::istringstream pids(Read(absl::StrCat("/proc/", pid, "/task/", pid, "/children")));
  for (pid_t child; pids >> child;) {
    const std::vector<std::string> arguments =
        absl::StrSplit(Read(absl::StrCat("/proc/", child, "/cmdline")), '\0');
    std::string name = "coordinator";
    for (size_t i = 0; i + 1 < arguments.size(); ++i) {
      if (arguments[i] == "--name") name = arguments[i + 1];
      if (arguments[i] == "--shard") name = "shard-" + arguments[i + 1];
    }
    if (!arguments.front().empty()) children[child] = name;  // else it has just ended
  }
  return children;
}

uint64_t ResidentBytes(pid_t pid) {
  for (const absl::string_view line :
       absl::StrSplit(Read(absl::StrCat("/proc/", pid, "/status")), '\n')) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t kilobytes = 0;
    if (words.size() > 1 && words[0] == "VmRSS:" && absl::SimpleAtoi(words[1], &kilobytes))
      return kilobytes << 10;
  }
  return 0;
}

}  // namespace

RunWatch::RunWatch(SecuredRun* run, uint32_t rounds) : run_(run), rounds_(rounds) {
  for (const auto& [pid, name] : ChildrenOf(run->up().pid()))
    children_[pid] = {name, ResidentBytes(pid), 0};
}

void RunWatch::Look() {
  ReadLines();
  if (!run_->Running()) {
    over_ = true;
    return;
  }
  LookAtProcesses();
  LookAtMemory();
  if (absl::Now() - looked_at_pages_ < kPagesEvery) return;
  LookAtPages();
  looked_at_pages_ = absl::Now();
}

void RunWatch::Fail(const std::string& what) {
  if (std::ranges::find(failed_, what) != failed_.end() || failed_.size() > 20) return;
  failed_.push_back(what);
  ADD_FAILURE() << what;
}

void RunWatch::ReadLines() {
  while (const auto line = run_->up().ReadLine()) absl::StrAppend(&lines_, *line, "\n");
}

void RunWatch::LookAtProcesses() {
  const std::map<pid_t, std::string> now = ChildrenOf(run_->up().pid());
  // Only of a run that went on afterwards is a process amiss.
  const auto status = run_->as_operator().GetStatus();
  if (!status.ok()) {
    if (!absl::IsUnavailable(status.status()))
      Fail(absl::StrCat("a status: ", status.status().ToString()));
    return;
  }
  if (status->phase != RunPhase::kTraining) return;
  for (const auto& [pid, child] : children_) {
    if (!now.contains(pid)) Fail(child.name + " has ended while the run went on");
  }
  LookAtProgress(*status);
}

void RunWatch::LookAtProgress(const RunStatus& status) {
  records_ = status.record_count;
  uint64_t closed = 0;
  for (const ShardStatus& shard : status.shards) closed += shard.state.segments_closed;
  const absl::Time now = absl::Now();
  if (closed > closed_) moved_ = now;
  closed_ = closed;
  const bool ends = std::ranges::all_of(
      status.shards, [&](const ShardStatus& shard) { return shard.state.open_round >= rounds_; });
  absl::Duration& longest = ends ? end_ : longest_pause_;
  longest = std::max(longest, now - moved_);
  if (longest > (ends ? kEndMax : kPauseMax)) {
    Fail(absl::StrCat(ends ? "the run has not ended, though its last round was closed "
                           : "no segment was closed for ",
                      absl::FormatDuration(longest), ends ? " ago" : ""));
    over_ = true;
  }
  for (auto& entry : children_) {
    auto& child = entry.second;  // clang 14 lets no lambda name a structured binding
    if (!absl::StartsWith(child.name, "worker-")) continue;
    const auto found = std::ranges::find_if(
        status.members, [&](const MemberStatus& m) { return m.member.name == child.name; });
    if (found == status.members.end()) {
      // A run may begin with a hostile member before this one has registered.
      if (child.was_member) Fail(child.name + " is not among the members any more");
      continue;
    }
    child.was_member = true;
    if (found->state.phase == WorkerPhase::kLost || found->state.phase == WorkerPhase::kFailed) {
      Fail(absl::StrCat(child.name, " is shown as ", std::string(Name(found->state.phase))));
    }
  }
}

void RunWatch::LookAtMemory() {
  for (auto& [pid, child] : children_) {
    const uint64_t bytes = ResidentBytes(pid);
    child.most_bytes = std::max(child.most_bytes, bytes);
    if (bytes > child.first_bytes + kGrowthBytesMax) {
      Fail(absl::StrCat(child.name, " has ", kGrowthBytesMax >> 20, " MiB more than at first"));
    }
  }
}

void RunWatch::LookAtPages() {
  const std::string operator_folder = run_->credentials("operator");
  // The run may have ended meanwhile.
  const std::string status = OutputOf({"status", run_->address(), "--security", operator_folder});
  ExpectFit("longwave status", status);
  for (const auto& [pid, child] : children_) {
    ExpectFit("the page of " + child.name, run_->PageOf(child.name));
  }
}

void RunWatch::ExpectFit(const std::string& where, const std::string& text) {
  const std::string raw = FindRaw(text);
  if (!raw.empty()) Fail(absl::StrCat(where, ": ", raw));
}

std::string RunWatch::OutputOf(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {absl::StrCat(std::getenv("LONGWAVE_BIN"), "/longwave")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const std::string errors = run_->folder() + "/errors-of-a-command";
  auto process = Process::Start(
      {.name = arguments.front(), .argv = argv, .log_file = errors, .environment = {}});
  if (!process.ok()) {
    Fail(process.status().ToString());
    return "";
  }
  std::string output;
  while (true) {
    const bool running = (*process)->Running();
    while (const auto line = (*process)->ReadLine()) absl::StrAppend(&output, *line, "\n");
    if (!running) break;
    absl::SleepFor(absl::Milliseconds(5));
  }
  ExpectFit("errors of longwave " + arguments.front(), Read(errors));
  // The coordinator ends before the run's folder says so, and perhaps during the call.
  const auto has_ended = [&] {
    return arguments.front() == "status" &&
           absl::IsUnavailable(run_->as_operator().GetStatus().status());
  };
  if (!(*process)->succeeded() && !absl::StrContains(Read(errors), "Connection refused") &&
      !has_ended()) {
    Fail(absl::StrCat("longwave ", arguments.front(), ": ", Read(errors)));
  }
  std::filesystem::remove(errors);
  return output;
}

void RunWatch::ExpectAGoodEnd() {
  ReadLines();
  if (run_->Running()) return Fail("the run, whose files are in " + run_->folder() + ", goes on");
  if (!run_->up().succeeded()) {
    return Fail(absl::StrCat("longwave up: ", Read(run_->up().log_file()), "\n", lines_));
  }
  ExpectFit("longwave up", lines_);
  if (absl::StrContains(lines_, "has left the run")) Fail("an honest worker has left:\n" + lines_);
  const auto summary =
      nlohmann::json::parse(Read(run_->folder() + "/summary.json"), nullptr, false);
  EXPECT_EQ(summary.value("outcome", ""), "finished") << summary;
  EXPECT_EQ(summary.value("restarts", -1), 0) << summary;
  EXPECT_TRUE(summary.value("replicas_equal", false)) << summary;
  const std::string weights = run_->folder() + "/model.safetensors";
  EXPECT_EQ(summary.value("model_file", ""), weights);
  for (const auto& [pid, child] : children_) {
    ExpectFit("the log of " + child.name, run_->LogOf(child.name));
    EXPECT_EQ(child.was_member, absl::StartsWith(child.name, "worker-")) << child.name;
  }
  std::istringstream metrics(Read(run_->folder() + "/metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    if (!nlohmann::json::accept(line)) Fail("metrics.jsonl: " + line);
  }
  const std::string again = run_->folder() + "/again.safetensors";
  const std::string replay = OutputOf({"replay", run_->folder(), "--weights", again});
  ExpectFit("longwave replay", replay);
  EXPECT_TRUE(absl::StrContains(replay, "as the run's summary has it")) << replay;
  EXPECT_FALSE(absl::StrContains(replay, "problem ")) << replay;
  EXPECT_TRUE(Read(weights) == Read(again)) << "the weights are not what the updates make";
}

std::string RunWatch::Figures() const {
  std::string figures =
      absl::StrCat(records_, " rounds seen, longest pause ", absl::FormatDuration(longest_pause_),
                   ", the end took ", absl::FormatDuration(end_));
  for (const auto& [pid, child] : children_) {
    absl::StrAppend(&figures, ", ", child.name, " ", child.first_bytes >> 20, " to ",
                    child.most_bytes >> 20, " MiB");
  }
  return figures;
}

}  // namespace longwave
