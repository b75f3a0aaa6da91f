#include "worker/models/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(OpenDevice, CpuIsTheCpuEverywhere) {
  const auto device = OpenDevice("cpu");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->kind, BackendKind::kCpu);
  EXPECT_FALSE(device->ops->on_device);
  EXPECT_EQ(device->stream, nullptr);
  EXPECT_EQ(device->why_not_cuda, "");
}

TEST(OpenDevice, CudaWithoutAGpuSaysWhatIsMissingAndWhatIsWanted) {
  const auto device = OpenDevice("cuda");
  if (device.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(device.status().code(), absl::StatusCode::kUnavailable);
  const std::string message(device.status().message());
  EXPECT_THAT(message, HasSubstr("train.device is cuda, got no GPU to compute on: "));
  EXPECT_THAT(message, HasSubstr("; wanted a machine and a build with CUDA"));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

TEST(OpenDevice, AutoIsCudaWhereThatWorksAndElseTheCpuWithTheReason) {
  const auto cuda = OpenDevice("cuda");
  const auto device = OpenDevice("auto");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->ops->on_device, cuda.ok());
  if (cuda.ok()) {
    EXPECT_EQ(device->kind, BackendKind::kCuda);
  } else {
    EXPECT_EQ(device->kind, BackendKind::kCpu);
    EXPECT_NE(device->why_not_cuda, "");
    EXPECT_THAT(std::string(cuda.status().message()), HasSubstr(device->why_not_cuda));
  }
}

}  // namespace
}  // namespace longwave
