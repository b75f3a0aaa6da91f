#ifndef LONGWAVE_TESTS_BENCH_SHARD_CHECK_H_
#define LONGWAVE_TESTS_BENCH_SHARD_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "tests/bench/shard/load.h"
#include "tests/bench/shard/payloads.h"

namespace longwave {

// Merges the same contributions again with the Merger and without a server, and compares the
// results with the load's: `segment` in each of the rounds 0 … rounds − 1, where later rounds
// depend on the residual of earlier ones. Returns the merge's processor seconds, on one thread in
// fast memory. DataLoss: a round differs; the message says which and how.
absl::StatusOr<double> CheckMerges(const RunConfig& config, const Layout& layout,
                                   const BenchPushes& pushes, const Load& load, uint32_t segment,
                                   uint32_t rounds);

// Bytes of each segment's merged payload, as it came in round 0.
std::vector<uint64_t> MergedBytes(const Load& load, uint32_t segments);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_CHECK_H_
