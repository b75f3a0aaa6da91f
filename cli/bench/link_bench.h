#ifndef LONGWAVE_CLI_BENCH_LINK_BENCH_H_
#define LONGWAVE_CLI_BENCH_LINK_BENCH_H_

#include <string>

namespace CLI {
class App;
}

namespace longwave {

// `longwave bench link`: a real training run over links of a given rate and delay.
struct BenchLinkOptions {
  std::string json_file;  // where the figures go as JSON; empty: nowhere
};

// Gives `command` the flags that fill in `options`, which outlives it.
void AddBenchLinkFlags(CLI::App* command, BenchLinkOptions* options);

// Returns the process's exit status.
int RunBenchLink(const BenchLinkOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_BENCH_LINK_BENCH_H_
