// longwave-sim: whole runs in one thread, drawn from seeds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/log/log.h"
#include "tests/sim/canary.h"
#include "tests/sim/probes.h"
#include "tests/sim/settings.h"
#include "tests/sim/world.h"

#ifndef LONGWAVE_SIM_COMMIT
#define LONGWAVE_SIM_COMMIT "unknown"
#endif

namespace longwave::sim {
namespace {

struct Command {
  WorldOptions options;
  uint64_t first_seed = 0;
  uint64_t last_seed = 0;
  uint64_t violations_max = 1;  // limit, after which the program ends
  bool verbose = false;
  bool twice = false;
  bool calm = false;
  std::string only;  // as given
};

void PrintViolation(const Command& command, const WorldSettings& settings,
                    const WorldResult& result) {
  std::string again = absl::StrCat("longwave-sim --seed ", settings.seed);
  if (command.options.workers > 0) absl::StrAppend(&again, " --workers ", command.options.workers);
  if (command.options.shards > 0) absl::StrAppend(&again, " --shards ", command.options.shards);
  if (command.options.rounds > 0) absl::StrAppend(&again, " --rounds ", command.options.rounds);
  if (command.options.fragments) absl::StrAppend(&again, " --fragments");
  if (command.options.nodes) absl::StrAppend(&again, " --nodes");
  if (command.options.fits_interval) absl::StrAppend(&again, " --auto");
  if (command.options.member_start) absl::StrAppend(&again, " --member-start");
  if (command.calm) absl::StrAppend(&again, " --calm");
  if (!command.only.empty()) absl::StrAppend(&again, " --only '", command.only, "'");
  if (settings.canary != Canary::kNone)
    absl::StrAppend(&again, " --canary ", std::string(Name(settings.canary)));
  absl::PrintF("%s\nviolation after %.1f simulated seconds: %s\nagain: %s --verbose\n\n",
               settings.Describe(), result.seconds, result.violation, again);
}

void PrintOne(const WorldSettings& settings, const WorldResult& result) {
  absl::PrintF("%s\n", settings.Describe());
  absl::PrintF(
      "trace %016x, %d events, %d messages, %.1f simulated seconds, %d rounds, %d pushes merged, "
      "%d of unknown fate, %d lost with folders\n",
      result.trace_hash, result.events, result.messages, result.seconds, result.rounds,
      result.pushes_merged, result.unknown_fates, result.pushes_lost);
}

int Run(Command command) {
  absl::PrintF("longwave-sim, commit %s, seeds %d..%d\n", LONGWAVE_SIM_COMMIT, command.first_seed,
               command.last_seed);
  command.options.faults = !command.calm;
  const auto begin = std::chrono::steady_clock::now();
  WorldResult all;
  uint64_t seeds = 0;
  uint64_t violations = 0;
  for (uint64_t seed = command.first_seed; seed <= command.last_seed; ++seed) {
    command.options.seed = seed;
    const WorldSettings settings = DrawSettings(command.options);
    std::function<void(const std::string&)> listener;
    if (command.verbose) listener = [](const std::string& line) { std::puts(line.c_str()); };
    WorldResult result = RunWorld(settings, listener);
    if (command.twice && result.violation.empty()) {
      const WorldResult again = RunWorld(settings);
      if (again.trace_hash != result.trace_hash) {
        result.violation = absl::StrFormat("its trace is %016x, and %016x the second time",
                                           result.trace_hash, again.trace_hash);
      }
    }
    ++seeds;
    all.events += result.events;
    all.pushes_merged += result.pushes_merged;
    all.unknown_fates += result.unknown_fates;
    all.pushes_lost += result.pushes_lost;
    all.seconds += result.seconds;
    all.probes.Add(result.probes);
    if (command.first_seed == command.last_seed) PrintOne(settings, result);
    if (result.violation.empty()) continue;
    PrintViolation(command, settings, result);
    std::fflush(stdout);
    if (++violations >= command.violations_max) break;
  }
  if (seeds > 1) {
    for (size_t i = 0; i < kProbeCount; ++i) {
      const auto probe = static_cast<Probe>(i);
      absl::PrintF("%10d  %s\n", all.probes.count(probe), Name(probe));
    }
    for (const Probe probe : all.probes.Missed()) absl::PrintF("never reached: %s\n", Name(probe));
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  absl::PrintF(
      "%d seeds, %d violations (%d events, %d pushes merged, %d of unknown fate, %d lost with "
      "folders, %.0f simulated seconds, in %.1f s)\n",
      seeds, violations, all.events, all.pushes_merged, all.unknown_fates, all.pushes_lost,
      all.seconds, seconds);
  return violations == 0 ? 0 : 1;
}

bool ParseSeeds(const std::string& text, Command* command) {
  const std::vector<std::string> ends = absl::StrSplit(text, "..");
  return ends.size() == 2 && absl::SimpleAtoi(ends[0], &command->first_seed) &&
         absl::SimpleAtoi(ends[1], &command->last_seed) &&
         command->first_seed <= command->last_seed;
}

// The value that has the name; nothing, with a sentence, where none has it.
template <typename Enum>
std::optional<Enum> Named(const char* option, std::string_view name) {
  std::vector<std::string> names;
  for (size_t i = 0; i < static_cast<size_t>(Enum::kCount); ++i) {
    const auto value = static_cast<Enum>(i);
    if (Name(value) == name) return value;
    names.emplace_back(Name(value));
  }
  absl::FPrintF(stderr, "%s: got %s, wanted one of: %s\n", option, name,
                absl::StrJoin(names, ", "));
  return std::nullopt;
}

int Main(int argc, char** argv) {
  CLI::App app("Whole runs in one thread, with the faults that a seed draws");
  Command command;
  uint64_t seed = 0;
  std::string seeds;
  std::string canary = "none";
  auto* const one = app.add_option("--seed", seed, "the one to run");
  app.add_option("--seeds", seeds, "the first and the last one to run: A..B")->excludes(one);
  app.add_option("--workers", command.options.workers, "how many; default: drawn");
  app.add_option("--shards", command.options.shards, "how many; default: drawn");
  app.add_option("--rounds", command.options.rounds, "how many; default: drawn");
  app.add_option("--canary", canary, "a bug to plant, which is to be found");
  app.add_option("--only", command.only, "kinds of faults that may be drawn: crash,freeze,…");
  app.add_option("--violations", command.violations_max, "end after so many");
  app.add_flag("--fragments", command.options.fragments,
               "several fragments a round, and little memory for their pushes");
  app.add_flag("--member-start", command.options.member_start,
               "run.start member: workers bring first weights of their own");
  app.add_flag("--nodes", command.options.nodes,
               "workers are nodes of one to four ranks, which change with each restart");
  app.add_flag("--auto", command.options.fits_interval,
               "sync.inner_steps auto: the coordinator decides the inner steps of rounds");
  app.add_flag("--calm", command.calm, "without faults");
  app.add_flag("--twice", command.twice, "each seed twice, which must give the same trace");
  app.add_flag("--verbose", command.verbose, "print every step");
  CLI11_PARSE(app, argc, argv);
  const std::optional<Canary> named = Named<Canary>("--canary", canary);
  if (!named.has_value()) return 2;
  command.options.canary = *named;
  const std::vector<std::string> kinds = absl::StrSplit(command.only, ',', absl::SkipEmpty());
  for (const std::string& kind : kinds) {
    const std::optional<FaultKind> fault = Named<FaultKind>("--only", kind);
    if (!fault.has_value()) return 2;
    command.options.only.push_back(*fault);
  }
  for (const FaultKind kind : command.options.only) {
    const bool goes_with_damage = kind == FaultKind::kDamage || kind == FaultKind::kSlow;
    if (goes_with_damage || std::ranges::count(command.options.only, FaultKind::kDamage) == 0)
      continue;
    absl::FPrintF(
        stderr,
        "--only: got damage with %s, wanted damage alone or with slow: the other replicas "
        "must be there to mend it\n",
        Name(kind));
    return 2;
  }
  command.first_seed = command.last_seed = seed;
  if (!seeds.empty() && !ParseSeeds(seeds, &command)) {
    absl::FPrintF(stderr, "--seeds: got %s, wanted two numbers as in 1..1000\n", seeds);
    return 2;
  }
  return Run(command);
}

}  // namespace
}  // namespace longwave::sim

int main(int argc, char** argv) {
  longwave::SetLogLevel(longwave::LogLevel::kError);  // of thousands of simulated processes
  return longwave::sim::Main(argc, argv);
}
