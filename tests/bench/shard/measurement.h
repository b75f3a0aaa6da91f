#ifndef LONGWAVE_TESTS_BENCH_SHARD_MEASUREMENT_H_
#define LONGWAVE_TESTS_BENCH_SHARD_MEASUREMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/shard/bench.h"
#include "tests/bench/shard/figures.h"

namespace longwave {

// The processors of the parts.
struct ProcessorPlan {
  std::vector<int> shards;  // empty: anywhere
  std::vector<int> others;  // of everything else
};

// Measures one number of workers, from the start of the processes to their end. options.server is
// set.
absl::StatusOr<ShardFigures> MeasureShards(const BenchShardOptions& options,
                                           const ProcessorPlan& placement, uint32_t workers);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_MEASUREMENT_H_
