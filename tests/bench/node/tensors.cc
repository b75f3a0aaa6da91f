// The time of a node's tensors: through the memory that its ranks share, beside c10d over gloo.
//
//   bench_node_tensors
//
// A line for each number of ranks: the seconds of a step's traffic, a gradient of 4 Mi elements
// that is reduced to its owners and as many weights that are spread, the shortest of seven. Ranks
// are threads.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/layout/layout.h"
#include "tests/support/thread_tensors.h"
#include "worker/node/collective.h"

namespace longwave {
namespace {

constexpr uint64_t kElements = uint64_t{1} << 22;

double Seconds(uint32_t ranks, const Layout& layout, OpenCollective* open) {
  absl::Duration shortest = absl::InfiniteDuration();
  const auto step = [](NodeTensors& tensors, std::vector<float>& array) {
    LONGWAVE_CHECK(tensors.ReduceToOwners(array.data(), nullptr, array.data()).ok());
    LONGWAVE_CHECK(Spread(tensors, tensors.owned(), kElements, array.data()).ok());
  };
  RunRanks(
      ranks, layout, SharedTensors::kBlock,
      [&](NodeTensors& tensors) {
        std::vector<float> array(kElements, 1);
        for (int i = 0; i < 7; ++i) {
          const absl::Time began = MonotonicNow();
          step(tensors, array);
          // Rank 0 ends a step when it has the other ranks' weights.
          if (tensors.node().rank == 0) shortest = std::min(shortest, MonotonicNow() - began);
        }
      },
      open);
  return absl::ToDoubleSeconds(shortest);
}

int Main() {
  const absl::StatusOr<Layout> layout =
      Layout::Create({{{"weights", {1024, kElements / 1024}}}}, {});
  LONGWAVE_CHECK(layout.ok());
  std::printf("ranks  memory    gloo  gloo/memory\n");
  for (const uint32_t ranks : {2, 4}) {
    const double memory = Seconds(ranks, *layout, nullptr);
    const double gloo = Seconds(ranks, *layout, &OpenGloo);
    std::printf("%5u  %.3f s  %.3f s  %.1f\n", ranks, memory, gloo, gloo / memory);
  }
  return 0;
}

}  // namespace
}  // namespace longwave

int main() { return longwave::Main(); }
