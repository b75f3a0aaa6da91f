// train.activation_checkpoints: the same gradients from less memory.

#include <c10/core/Allocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/rng.h"
#include "tests/unit/worker/models/replica_parts.h"

namespace longwave {
namespace {

const ModelSection kGpt = {
    .kind = "gpt", .d_model = 16, .layers = 3, .heads = 2, .context = 64, .vocabulary = 32};
constexpr int64_t kRows = 4, kLength = 64;

Batch Drawn() {
  Rng rng(1);
  const auto draw = [&](int64_t count, uint64_t below) {
    std::vector<int64_t> values(static_cast<size_t>(count));
    std::ranges::generate(values, [&] { return static_cast<int64_t>(rng.Below(below)); });
    return values;
  };
  return {.rows = kRows,
          .length = kLength,
          .tokens = draw(kRows * kLength, 32),
          .targets = draw(kRows * kLength, 32)};
}

std::unique_ptr<Replica> Make(const ModelSection& model, TrainSection train, bool checkpoints) {
  train.activation_checkpoints = checkpoints;
  auto replica = Replica::Create(model, train, /*seed=*/1, /*threads=*/1);
  EXPECT_TRUE(replica.ok()) << replica.status();
  return *std::move(replica);
}

using Setting = std::tuple<const char*, uint32_t>;  // autocast, micro_batches
std::string NameOf(const ::testing::TestParamInfo<Setting>& info) {
  const auto& [autocast, parts] = info.param;
  return std::string(autocast) + "_" + std::to_string(parts);
}

class Checkpoints : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Settings, Checkpoints,
                         ::testing::Combine(::testing::Values("none", "bf16"),
                                            ::testing::Values(1u, 3u)),
                         NameOf);

TEST_P(Checkpoints, ChangeNoBitOfLossAndGradient) {
  const auto& [autocast, parts] = GetParam();
  const TrainSection train = {.batch = kRows, .micro_batches = parts, .autocast = autocast};
  const auto plain = Make(kGpt, train, false), checkpointed = Make(kGpt, train, true);
  // The second step starts from the state that the first one leaves.
  for (int step = 0; step < 2; ++step) {
    const Batch batch = Drawn();
    EXPECT_EQ(*checkpointed->ForwardBackward(batch), *plain->ForwardBackward(batch));
    EXPECT_TRUE(std::ranges::equal(Gradient(*checkpointed), Gradient(*plain)));
    // A block whose gradient were lost would be equal to none.
    EXPECT_LT(std::ranges::count(Gradient(*checkpointed), 0.0f), plain->parameter_count() / 10);
    EXPECT_EQ(*checkpointed->Loss(batch), *plain->Loss(batch));
    for (Replica* const replica : {plain.get(), checkpointed.get()})
      for (size_t i = 0; i < replica->parameter_count(); ++i)
        Theta(*replica)[i] -= Gradient(*replica)[i];
  }
}

// LibTorch's type of totals, which differs between versions.
template <typename Total>
Total TotalOf(void (c10::MemoryReportingInfoBase::*)(void*, int64_t, Total, Total, c10::Device));
using Total = decltype(TotalOf(&c10::MemoryReportingInfoBase::reportMemoryUsage));

// Bytes of tensors that live at once, as LibTorch's allocator reports them.
class LiveBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/, int64_t alloc_size, Total /*allocated*/, Total /*reserved*/,
                         c10::Device /*device*/) override {
    live_ += alloc_size;
    peak_ = std::max(peak_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  int64_t live_ = 0, peak_ = 0;
};

// Of a step beside parameters and their gradients, which live before.
int64_t PeakBytes(uint32_t layers, const TrainSection& train, bool checkpoints) {
  ModelSection model = kGpt;
  model.layers = layers;
  const auto replica = Make(model, train, checkpoints);
  const Batch batch = Drawn();
  const auto live = std::make_shared<LiveBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, live);
  EXPECT_TRUE(replica->ForwardBackward(batch).ok());
  return live->peak();
}

// A further block costs its input in fp32, where without checkpoints it costs all its activations.
TEST_P(Checkpoints, KeepOfABlockItsInputAlone) {
  const auto& [autocast, parts] = GetParam();
  const TrainSection train = {.batch = kRows, .micro_batches = parts, .autocast = autocast};
  const auto growth = [&](bool checkpoints) {
    return PeakBytes(10, train, checkpoints) - PeakBytes(4, train, checkpoints);
  };
  const int64_t rows = (kRows + parts - 1) / parts;
  const int64_t inputs = 6 * rows * kLength * kGpt.d_model * 4;
  if (train.autocast == "none") {
    EXPECT_EQ(growth(true), inputs);
  } else {  // autocast keeps copies of a block's matrices, 12·d² values, until the forward pass
            // ends
    EXPECT_GE(growth(true), inputs);
    EXPECT_LE(growth(true), inputs + 6 * 12 * kGpt.d_model * kGpt.d_model * 2);
  }
  // With fused attention and activations in bf16 it is ten times as much, else more than twenty.
  EXPECT_GT(growth(false), 8 * inputs);
}

}  // namespace
}  // namespace longwave
