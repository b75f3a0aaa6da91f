// The CPU backend allocates nothing once each kind of call has been made: a program of its own,
// since it replaces operator new.
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops.h"
#include "tests/support/replaced_new.h"

namespace {
std::atomic<int> allocations{0};
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};
}  // namespace

void NoteAllocated(void* memory) {
  allocations.fetch_add(1);
  const int64_t live = live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t peak = peak_bytes.load();
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
}
void NoteReleased(void* memory) { live_bytes -= static_cast<int64_t>(malloc_usable_size(memory)); }

namespace longwave {
namespace {

// A worker's arrays, and one sync of its first segment.
struct Worker {
  Worker(std::vector<TensorSpec> tensors, const LayoutOptions& options, Selection selection)
      : layout(*Layout::Create({.tensors = std::move(tensors)}, options)),
        theta(layout.parameter_count(), 0.5f),
        gradient(layout.parameter_count()),
        momentum(layout.coefficient_count()),
        form(*PayloadLayout::Create({selection, ValueCodec::kInt2, 64}, layout.TileSizes(0))),
        payload(form.bytes()) {
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 17) - 8;
  }

  void Sync(const Exec& exec) {
    EncodeArgs encode;
    encode.layout = &layout;
    encode.signal.a = gradient.data();
    encode.transform = Transform::kDct;
    encode.beta = 0.9f;
    encode.momentum = momentum.data();
    encode.payload_layout = &form;
    encode.payload = payload;
    encode.report = &report;
    ASSERT_TRUE(ops.encode(exec, {&encode, 1}).ok());
    ASSERT_TRUE(ops.finish(exec, 0).ok());
    DecodeUpdateArgs decode;
    decode.layout = &layout;
    decode.transform = Transform::kDct;
    decode.payload_layout = &form;
    decode.payload = payload;
    decode.theta = theta.data();
    ASSERT_TRUE(ops.decode_update(exec, {&decode, 1}).ok());
    RestoreArgs restore;
    restore.layout = &layout;
    restore.momentum = momentum.data();
    restore.payload_layout = &form;
    restore.payload = payload;
    ASSERT_TRUE(ops.restore(exec, restore).ok());
    HashArgs hashing;
    hashing.layout = &layout;
    hashing.theta = theta.data();
    hashing.hashes = {&hash, 1};
    ASSERT_TRUE(ops.hash(exec, hashing).ok());
  }

  const KernelOps& ops = **OpsFor(BackendKind::kCpu);
  const Layout layout;
  std::vector<float> theta, gradient, momentum;
  const PayloadLayout form;
  std::vector<std::byte> payload;
  EncodeReport report;
  uint64_t hash = 0;
};

TEST(CpuBackend, AllocatesNothingInSteadyState) {
  LayoutOptions options;
  options.segment_tiles = 9;
  for (const Selection selection : {Selection::kTopK, Selection::kRandom, Selection::kAll}) {
    Worker worker({{"a", {200, 150}}, {"b", {5000}}}, options, selection);
    for (const int threads : {1, 3}) {
      const Exec exec = {nullptr, threads};
      worker.Sync(exec);
      const int before = allocations.load();
      for (int i = 0; i < 5; ++i) worker.Sync(exec);
      EXPECT_EQ(allocations.load() - before, 0) << threads << " threads";
    }
  }
}

// Each thread that encodes or decodes has space for a few tiles. A call's further memory, beside
// the arrays of its arguments, stays within one segment on a machine with a few cores.
TEST(CpuBackend, NeedsAtMostASegmentBesideMomentumAndPayload) {
  Worker worker({{"a", {2048, 1024}}}, {}, Selection::kTopK);
  ASSERT_GT(worker.layout.segments().size(), 1u);
  const auto coefficients = static_cast<int64_t>(worker.layout.segments()[0].coefficient_count);
  const int64_t before = live_bytes.load();
  peak_bytes = before;
  worker.Sync({nullptr, 4});
  EXPECT_LE(peak_bytes.load() - before, 4 * coefficients);
}

}  // namespace
}  // namespace longwave
