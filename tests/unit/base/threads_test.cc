#include "common/base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>

namespace longwave {
namespace {

// The CPU set and the environment are those of before at its end.
class ThreadsTest : public testing::Test {
 protected:
  ThreadsTest() {
    EXPECT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    unsetenv("OMP_NUM_THREADS");
  }
  ~ThreadsTest() override {
    sched_setaffinity(0, sizeof before_, &before_);
    unsetenv("OMP_NUM_THREADS");
  }

  cpu_set_t before_;
};

TEST_F(ThreadsTest, AreAsManyAsTheCpuSetHasCores) {
  EXPECT_LE(UsableCores(), static_cast<uint32_t>(CPU_COUNT(&before_)));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(UsableCores(), 1u);
  EXPECT_EQ(DefaultThreads(), 1u);
}

TEST_F(ThreadsTest, AreSharedAmongProcessesAndNeverNone) {
  EXPECT_EQ(DefaultThreads(), UsableCores());
  EXPECT_EQ(DefaultThreads(0), UsableCores());
  EXPECT_EQ(DefaultThreads(1'000'000), 1u);
}

TEST_F(ThreadsTest, AreThoseOfTheEnvironmentWhereThatSays) {
  setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_EQ(DefaultThreads(), 7u);
  EXPECT_EQ(DefaultThreads(1'000'000), 7u);
  for (const char* no_number : {"", "0", "-1", "many", "4,2"}) {
    setenv("OMP_NUM_THREADS", no_number, 1);
    EXPECT_EQ(DefaultThreads(), UsableCores()) << no_number;
  }
}

}  // namespace
}  // namespace longwave
