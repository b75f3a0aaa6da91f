#ifndef LONGWAVE_CLI_BENCH_SHARD_BENCH_H_
#define LONGWAVE_CLI_BENCH_SHARD_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace longwave {

// `longwave bench shard`: synthetic workers against real shard processes.
struct BenchShardOptions {
  uint32_t workers = 8;
  std::vector<uint32_t> sweep;  // numbers of workers, one run each; empty: `workers` alone
  uint32_t shards = 1;
  uint64_t params = 4 << 20;
  uint32_t k = 64;
  uint32_t bits = 1;    // of a pushed value: 1, 2, 4, 8, 16 or 32
  uint32_t rounds = 0;  // measured ones; 0: as many as start within `seconds`
  double seconds = 5;   // of measuring, where `rounds` is 0
  bool check_bytes = false;
  bool pin = true;        // shards to the first core, everything else to the others
  bool raw = true;        // measures raw ZeroMQ beside it
  std::string server;     // longwave-server; empty: the one beside this program
  std::string log_dir;    // keeps the servers' logs there; empty: they go with the run
  std::string json_file;  // where the figures go as JSON; empty: nowhere
};

// Gives `command` the flags that fill in `options`, which outlives it.
void AddBenchShardFlags(CLI::App* command, BenchShardOptions* options);

// Returns the process's exit status: 0 if everything was measured and is correct, whatever the
// speed.
int RunBenchShard(const BenchShardOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_BENCH_SHARD_BENCH_H_
