#ifndef LONGWAVE_TESTS_SUPPORT_THREAD_TENSORS_H_
#define LONGWAVE_TESTS_SUPPORT_THREAD_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "kernels/ops.h"
#include "tests/support/thread_node_link.h"
#include "worker/node/collective_tensors.h"
#include "worker/node/shared_tensors.h"

namespace longwave {

// Calls `body` for each rank of a node whose ranks are threads, with its tensors, which pass in
// blocks of `block` elements: by memory, or by the collective that `open` opens.
inline void RunRanks(uint32_t ranks, const Layout& layout, uint64_t block,
                     const std::function<void(NodeTensors& tensors)>& body,
                     OpenCollective* open = nullptr) {
  constexpr absl::Duration kPatience = absl::Seconds(60);
  ThreadNode node(ranks);
  std::vector<std::byte> area(SharedTensors::AreaBytes(ranks, block));
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const std::unique_ptr<NodeLink> link = node.Link(r);
      const KernelOps* const ops = *OpsFor(BackendKind::kCpu);
      if (open == nullptr) {
        SharedTensors tensors(link.get(), area, &layout, ops, {}, kPatience, block);
        body(tensors);
        return;
      }
      CollectiveTensors tensors(TensorMeeting(link.get(), kPatience),
                                open(*link, kPatience).value(), &layout, ops, {}, block,
                                /*seconds=*/nullptr);
      body(tensors);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_THREAD_TENSORS_H_
