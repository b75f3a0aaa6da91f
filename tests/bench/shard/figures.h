#ifndef LONGWAVE_TESTS_BENCH_SHARD_FIGURES_H_
#define LONGWAVE_TESTS_BENCH_SHARD_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/shard/bench.h"
#include "tests/bench/shard/cluster.h"
#include "tests/bench/shard/load.h"
#include "tests/bench/verdict.h"

namespace longwave {

// A load, and the resources that the other end, shards or raw routers, used for it.
struct ServedLoad {
  LoadFigures load;
  double processor_seconds = 0;  // of all shards or routers

  double PayloadPerSecond() const;           // bytes in and out
  double PayloadPerProcessorSecond() const;  // of the other end
};

// The measurement for one number of workers.
struct ShardFigures {
  uint32_t workers = 0;
  uint32_t segments = 0;
  uint64_t parameters = 0;
  uint64_t coefficients = 0;  // sent by one worker a round
  ServedLoad shard;
  ShardCounts counted;              // by the shards themselves, meanwhile
  uint64_t resident_bytes_max = 0;  // of the largest shard
  std::optional<ServedLoad> raw;
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

// A bar of the project on these figures.
struct Bar {
  std::string what;
  std::optional<double> value;  // not measured without it
  double wanted = 0;
  bool at_most = false;  // else: at least
  std::string reason;    // why it was not measured

  Verdict verdict() const {
    if (!value) return Verdict::kNotMeasured;
    return (at_most ? *value <= wanted : *value >= wanted) ? Verdict::kMet : Verdict::kNotMet;
  }
};

std::vector<Bar> BarsOf(const BenchShardOptions& options, const std::vector<ShardFigures>& runs);

// By nearest rank, of a list in any order; 0 for an empty one.
double Percentile(std::vector<double> values, double percent);

// For people.
std::string DescribeFigures(const ShardFigures& figures);
std::string DescribeBar(const Bar& bar);

// Everything, as JSON. processors: those of the shards, none if they were not bound.
std::string FiguresAsJson(const BenchShardOptions& options, const std::vector<int>& processors,
                          uint32_t generators, const std::vector<ShardFigures>& runs);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_FIGURES_H_
