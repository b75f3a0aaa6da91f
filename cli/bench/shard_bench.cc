#include "cli/bench/shard_bench.h"

#include <CLI/CLI.hpp>
#include <cstdio>

namespace longwave {

void AddBenchShardFlags(CLI::App* command, BenchShardOptions* options) {
  command->add_option("--workers", options->workers, "Synthetic workers")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  command->add_option("--json", options->json_file, "File that gets the figures as JSON");
}

int RunBenchShard(const BenchShardOptions& options) {
  (void)options;
  std::fprintf(stderr, "error: this build has no `longwave bench shard`\n");
  return 1;
}

}  // namespace longwave
