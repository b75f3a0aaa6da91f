#include "tests/bench/shard/check.h"

#include <ctime>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/shard/merge.h"

namespace longwave {
namespace {

double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

absl::StatusOr<double> CheckMerges(const RunConfig& config, const Layout& layout,
                                   const BenchPushes& pushes, const Load& load, uint32_t segment,
                                   uint32_t rounds) {
  const MergeOptions options{.run_seed = config.run.seed,
                             .up = config.sync.up,
                             .rho = config.sync.rho,
                             .down = config.sync.down};
  LONGWAVE_RETURN_IF_ERROR(Validate(options));
  std::vector<Contribution> contributions;
  std::vector<float> norms;
  for (uint32_t worker = 0; worker < pushes.workers(); ++worker) {
    const BenchPush& push = pushes.Of(worker, segment);
    contributions.push_back(
        {.weight = push.weight, .layout = &pushes.layout(segment), .payload = push.payload});
    norms.push_back(push.norm);
  }
  std::vector<float> residual;
  if (KeepsResidual(options)) residual.resize(layout.segments()[segment].coefficient_count);
  Merger merger(options);
  double seconds = 0;
  float last_norm = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const std::vector<double> factors = ClipFactors(norms, last_norm, config.sync.clip);
    for (size_t i = 0; i < factors.size(); ++i) contributions[i].factor = factors[i];
    const double before = ThreadSeconds();
    const MergedSegment wanted = merger.Merge(layout, segment, round, contributions, residual);
    seconds += ThreadSeconds() - before;
    last_norm = wanted.norm();
    const std::vector<std::byte>& got = load.Kept(round, segment);
    if (got == wanted.payload) continue;
    return absl::DataLossError(absl::StrCat("segment ", segment, " of round ", round, ": got ",
                                            got.size(), " bytes, the same merge gives other ",
                                            wanted.payload.size()));
  }
  return seconds;
}

std::vector<uint64_t> MergedBytes(const Load& load, uint32_t segments) {
  std::vector<uint64_t> bytes;
  for (uint32_t segment = 0; segment < segments; ++segment) {
    bytes.push_back(load.Kept(0, segment).size());
  }
  return bytes;
}

}  // namespace longwave
