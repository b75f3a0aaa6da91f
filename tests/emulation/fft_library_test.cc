// kernels/cuda/fft_cufft.cc beside libraries in cuFFT's place (stand_in_cufft.cc).
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/fft.h"

namespace longwave::cuda {
namespace {

TEST(FftLibrary, OneThatMakesNoPlanIsPassedOver) {
  ASSERT_TRUE(FftStatus().ok()) << FftStatus();
  float runs = 0;
  const absl::Status ran = FftRuns(&runs, 3, nullptr);
  EXPECT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(runs, 1103) << "the version, and the plan of 3 runs";
}

}  // namespace
}  // namespace longwave::cuda
