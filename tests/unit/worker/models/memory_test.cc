#include "worker/models/memory.h"

#include <gtest/gtest.h>

#include <string>

namespace longwave {
namespace {

TEST(CheckMemory, SaysWhatIsWantedAndWhatIsThere) {
  const absl::Status status = CheckMemory(12.3e9, 0, 20.1e9);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(status.message()),
            "model: 12.3 G parameters want about 295 GB of memory for this worker, 20.1 GB are "
            "available");
}

TEST(CheckMemory, CountsActivations) {
  EXPECT_TRUE(CheckMemory(1e6, 0, 30e6).ok());
  EXPECT_FALSE(CheckMemory(1e6, 10e6, 30e6).ok());
}

TEST(AvailableMemory, IsReadFromTheMachine) {
  const auto bytes = AvailableMemoryBytes();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 1e6);
}

}  // namespace
}  // namespace longwave
