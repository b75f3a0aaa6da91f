#include <CLI/CLI.hpp>

#include "common/base/memory.h"
#include "common/command_line/command_line.h"
#include "common/log/log.h"
#include "tests/bench/shard/bench.h"

int main(int argc, char** argv) {
  longwave::KeepFreedMemory();
  longwave::SetLogLevel(longwave::LogLevel::kError);
  longwave::BenchShardOptions options;
  CLI::App app("Synthetic workers against real shard processes: throughput, latency, memory.",
               "bench_shard");
  app.add_option("--sweep", options.sweep, "Numbers of synthetic workers, one after the other")
      ->delimiter(',')
      ->check(CLI::Range(1u, 512u))
      ->capture_default_str();
  app.add_option("--shards", options.shards, "Shard processes")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  app.add_option("--params", options.params, "Parameters of the model")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--set", options.overrides, "A setting of the run, key=value; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--rounds", options.rounds, "Rounds to measure, instead of a time")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "Time to measure for")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  app.add_flag("--check-bytes", options.check_bytes,
               "A few rounds each with 2 to 64 workers, for the bytes alone");
  app.add_flag("--no-pin", options.no_pin, "Bind no process to a processor");
  app.add_flag("--state", options.keep_state,
               "Shards keep state: pushes are on the disk of --log-dir before they are "
               "answered, as `longwave up` has it");
  app.add_option("--server", options.server, "Another longwave-server to measure");
  app.add_option("--log-dir", options.log_dir, "Folder that keeps the processes' logs");
  if (const auto status = longwave::ParseCommandLine(&app, argc, argv, "bench_shard: ")) {
    return *status;
  }
  return longwave::RunBenchShard(options);
}
