// The encoder's transform of runs by way of an FFT (kernels/cuda/fft.h). Under tests/gpu/run.sh
// this runs against cuFFT.
#include <algorithm>
#include <limits>

#include "kernels/cuda/cuda_ops.h"
#include "tests/conformance/harness.h"

namespace longwave::conformance {
namespace {

// Runs between blocks of other shapes, the last of them padded.
Layout RunsLayout() {
  Manifest manifest;
  manifest.tensors = {{"a", {64, 64}}, {"bias", {9000}}, {"b", {20, 100}}};
  LayoutOptions options;
  options.segment_tiles = 4;
  return *Layout::Create(manifest, options);
}

class RunFft : public testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<const KernelOps*> ops = OpsFor(BackendKind::kCuda);
    if (!ops.ok()) GTEST_SKIP() << ops.status().message();
    ops_ = *ops;
    if (!cuda::FftStatus().ok()) GTEST_SKIP() << cuda::FftStatus().message();
  }

  const KernelOps* ops_ = nullptr;
};

TEST_F(RunFft, CoefficientsAreTheDefinitionsWithinTheTolerance) {
  const Layout layout = RunsLayout();
  const State state(layout);
  EncodeSetting setting;
  setting.format = {Selection::kAll, ValueCodec::kFp32, 0};
  setting.alpha = 0;  // so the momentum stays the transform's result
  for (uint32_t s = 0; s < layout.segments().size(); ++s) {
    const Encoded got = Encode(*ops_, layout, s, state, setting);
    ASSERT_TRUE(got.status.ok()) << got.status.ToString();
    const std::vector<double> wanted =
        ExpectedMomentum(layout, s, state, setting.transform, double{setting.beta});
    const Segment& segment = layout.segments()[s];
    std::vector<double> coefficients(segment.coefficient_count);
    for (size_t i = 0; i < coefficients.size(); ++i) {
      coefficients[i] = got.momentum[segment.coefficient_begin + i];
    }
    EXPECT_LE(Distance(coefficients, wanted), kTolerance * Norm(wanted));
  }
}

TEST_F(RunFft, RepeatsItselfToTheBit) {
  const Layout layout = RunsLayout();
  const State state(layout);
  EncodeSetting setting;
  setting.format = {Selection::kTopK, ValueCodec::kInt2, 64};
  for (uint32_t s = 0; s < layout.segments().size(); ++s) {
    const Encoded once = Encode(*ops_, layout, s, state, setting);
    const Encoded again = Encode(*ops_, layout, s, state, setting);
    ASSERT_TRUE(once.status.ok()) << once.status.ToString();
    EXPECT_EQ(once.payload, again.payload);
    EXPECT_EQ(once.momentum, again.momentum);
  }
}

TEST_F(RunFft, ReportsANonFiniteRunAndLeavesItsMomentum) {
  const Layout layout = RunsLayout();
  State state(layout);
  const Tile& run = layout.tiles().back();
  ASSERT_EQ(run.rows, 1);
  state.theta[run.offset + 3] = std::numeric_limits<float>::infinity();
  const uint32_t s = static_cast<uint32_t>(layout.segments().size()) - 1;
  EncodeSetting setting;
  setting.format = {Selection::kTopK, ValueCodec::kInt2, 64};
  const Encoded got = Encode(*ops_, layout, s, state, setting);
  ASSERT_TRUE(got.status.ok()) << got.status.ToString();
  EXPECT_EQ(got.report.nonfinite_tile, layout.segments()[s].tile_count - 1);
  EXPECT_TRUE(std::equal(got.momentum.begin() + static_cast<ptrdiff_t>(run.coefficient_offset),
                         got.momentum.end(),
                         state.momentum.begin() + static_cast<ptrdiff_t>(run.coefficient_offset)));
}

}  // namespace
}  // namespace longwave::conformance
