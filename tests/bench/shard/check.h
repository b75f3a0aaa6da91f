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

// Merges the same contributions again, by the merge itself and without a server, and holds the
// result against what the load has got: `segment` in each of the rounds 0 … rounds − 1, of which
// the later ones rest on the residual of the earlier. Returns the processor seconds that it took,
// one thread in fast memory: what the merge alone costs. DataLoss: which round differs, and how.
absl::StatusOr<double> CheckMerges(const RunConfig& config, const Layout& layout,
                                   const BenchPushes& pushes, const Load& load, uint32_t segment,
                                   uint32_t rounds);

// Bytes of each segment's merged payload, as it came in round 0.
std::vector<uint64_t> MergedBytes(const Load& load, uint32_t segments);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_CHECK_H_
