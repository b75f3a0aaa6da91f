#include "kernels/cpu/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace longwave::cpu {

void ParallelFor(uint32_t count, int threads, const std::function<void(uint32_t)>& body) {
  // Indices are taken in chunks: small enough to even out, large enough not to share cache lines.
  constexpr uint32_t kChunk = 4;
  const uint32_t chunks = (count + kChunk - 1) / kChunk;
  std::atomic<uint32_t> next{0};
  const auto work = [&] {
    for (uint32_t chunk; (chunk = next.fetch_add(1, std::memory_order_relaxed)) < chunks;) {
      const uint32_t end = std::min(count, (chunk + 1) * kChunk);
      for (uint32_t i = chunk * kChunk; i < end; ++i) body(i);
    }
  };
  const uint32_t helpers = std::min<uint32_t>(chunks, static_cast<uint32_t>(std::max(1, threads)));
  std::vector<std::jthread> started;
  try {
    for (uint32_t i = 1; i < helpers; ++i) started.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: those that run do the work.
  }
  work();
}  // joins

}  // namespace longwave::cpu
