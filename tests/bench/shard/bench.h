#ifndef LONGWAVE_TESTS_BENCH_SHARD_BENCH_H_
#define LONGWAVE_TESTS_BENCH_SHARD_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace longwave {

// `bench_shard`: synthetic workers against real shard processes.
struct BenchShardOptions {
  std::vector<uint32_t> sweep = {8};  // numbers of workers, one cluster each
  uint32_t shards = 1;
  uint64_t params = 4 << 20;
  std::vector<std::string> overrides;  // of the run's configuration: "key=value"
  uint32_t rounds = 0;                 // measured ones; 0: as many as begin within `seconds`
  double seconds = 8;                  // of measuring, where `rounds` is 0
  bool check_bytes = false;            // few rounds for 2 to 64 workers, held against the design
  bool no_pin = false;                 // shards and generators run anywhere
  bool keep_state = false;  // shards write their log to a folder, and answer once it is durable
  std::string server;       // longwave-server; empty: the one beside this program
  std::string log_dir;      // folder of configuration and logs; empty: deleted at the end
};

// Returns the process's exit status: 0 if everything was measured and is correct, whatever the
// speed.
int RunBenchShard(const BenchShardOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_BENCH_H_
