#ifndef LONGWAVE_TESTS_BENCH_SHARD_MEASUREMENT_H_
#define LONGWAVE_TESTS_BENCH_SHARD_MEASUREMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/shard/bench.h"
#include "tests/bench/shard/figures.h"

namespace longwave {

// The processors of the parts.
struct ProcessorPlan {
  std::vector<int> shards;  // processors of shards and raw routers; empty: anywhere
  std::vector<int> others;  // of everything else
  uint32_t generators = 1;  // threads that play workers
};

// Measures one number of workers, from the start of the processes to their end. options.server is
// set. program: this one, which is started again as the raw router.
absl::StatusOr<ShardFigures> MeasureShards(const BenchShardOptions& options,
                                           const ProcessorPlan& placement,
                                           const std::string& program, uint32_t workers);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_MEASUREMENT_H_
