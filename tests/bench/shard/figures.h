#ifndef LONGWAVE_TESTS_BENCH_SHARD_FIGURES_H_
#define LONGWAVE_TESTS_BENCH_SHARD_FIGURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/shard/bench.h"
#include "tests/bench/shard/cluster.h"
#include "tests/bench/shard/load.h"

namespace longwave {

// The measurement for one number of workers.
struct ShardFigures {
  uint32_t workers = 0;
  uint32_t segments = 0;
  uint64_t parameters = 0;
  uint64_t coefficients = 0;  // sent by one worker a round
  LoadFigures load;
  double processor_seconds = 0;     // of all shards, for the load
  ShardCounts counted;              // by the shards themselves, meanwhile
  uint64_t resident_bytes_max = 0;  // of the largest shard
  // Sent coefficients a processor second of the merge without a server around it, in this process.
  double merge_alone_per_second = 0;

  // Errors; empty: none.
  std::string wrong_merge;
  std::string wrong_bytes;
  std::string disagreement;

  bool correct() const {
    return wrong_merge.empty() && wrong_bytes.empty() && disagreement.empty();
  }
  double MergedPerSecond() const;           // sent coefficients over all workers
  double MergedPerProcessorSecond() const;  // of the shards
  double ProcessorSecondsPerPush() const;   // including its merged frame
  // Per parameter, worker and round: payloads alone, and as counted at the shards' sockets.
  double PayloadUp() const;
  double PayloadDown() const;
  double SocketUp() const;
  double SocketDown() const;
};

// For people.
std::string DescribeFigures(const ShardFigures& figures);
// The bars of the project on these figures, a line each.
std::string DescribeBars(const BenchShardOptions& options, const std::vector<ShardFigures>& runs);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_FIGURES_H_
