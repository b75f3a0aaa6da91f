#include "cli/bench/link_bench.h"

#include <CLI/CLI.hpp>
#include <cstdio>

namespace longwave {

void AddBenchLinkFlags(CLI::App* command, BenchLinkOptions* options) {
  command->add_option("--json", options->json_file, "File that gets the figures as JSON");
}

int RunBenchLink(const BenchLinkOptions& options) {
  (void)options;
  std::fprintf(stderr, "error: this build has no `longwave bench link`\n");
  return 1;
}

}  // namespace longwave
