#include "worker/node/node_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "worker/node/rank_environment.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

TEST(NodeProcesses, KillsRanksThatHangAndLeavesNoZombie) {
  std::vector<pid_t> children;
  {
    auto node = NodeProcesses::Start(3, {"/bin/sleep", "1000"}, 4096);
    ASSERT_TRUE(node.ok()) << node.status();
    children = (*node)->children();
    ASSERT_EQ(children.size(), 2u);
  }
  for (const pid_t child : children) {
    EXPECT_EQ(kill(child, 0), -1);
    EXPECT_EQ(errno, ESRCH);
  }
}

TEST(NodeProcesses, SaysWhyThereIsNoSharedMemory) {
  errno = 0;
  EXPECT_EQ(NodeProcesses::Start(1, {}, ~size_t{0}).status(),
            absl::UnavailableError("node: ftruncate of the shared memory: Invalid argument"));
}

TEST(NodeProcesses, NoticesARankThatIsNoProgram) {
  auto node = NodeProcesses::Start(2, {"/nowhere"}, 4096);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ((*node)->link().AllGather("", absl::Hours(1)).status(),
            absl::UnavailableError("node: rank 1 has ended"));
}

TEST(NodeProcesses, GivesZeroedMemoryToAll) {
  auto node = NodeProcesses::Start(2,
                                   {"/bin/sh", "-c",
                                    // A shell has the memory as a file: the last descriptor.
                                    "IFS=,; set -- ${0#*=}; printf x 1<> /proc/self/fd/$4"},
                                   4096);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ((*node)->area().size(), 4096u);
  // The shell ends once it has written.
  EXPECT_FALSE((*node)->link().AllGather("", absl::Hours(1)).ok());
  EXPECT_EQ((*node)->area()[0], std::byte{'x'});
  EXPECT_EQ((*node)->area()[1], std::byte{0});
}

TEST(NodeProcesses, RefusesAnotherArgument) {
  for (const char* argument : {"", "1", "1,2,3", "0,2,0,0", "2,2,0,0", "a,b,c,d", "1,2,0,987654"}) {
    const auto node = NodeProcesses::Join(argument);
    EXPECT_EQ(node.status().code(), absl::StatusCode::kInvalidArgument) << argument;
    EXPECT_THAT(std::string(node.status().message()), HasSubstr("--node-place: got ")) << argument;
  }
}

TEST(GpuOfRank, IsTheRanksOwnWhereThereAreEnough) {
  EXPECT_EQ(GpuOfRank(1, "", 0), "");
  EXPECT_EQ(GpuOfRank(1, "", 8), "1");
  EXPECT_EQ(GpuOfRank(3, "", 2), "1");
  EXPECT_EQ(GpuOfRank(1, "4,5,GPU-7f", 8), "5");
  EXPECT_EQ(GpuOfRank(2, "4,5,GPU-7f", 8), "GPU-7f");
  EXPECT_EQ(GpuOfRank(3, "4,5,GPU-7f", 8), "4");
}

// A container has the host's numbers.
TEST(GpusIn, CountsTheGpusOfAContainerWhateverTheirNumbers) {
  const std::filesystem::path devices = testing::TempDir() + "/node_processes_test_dev";
  std::filesystem::create_directories(devices);
  for (const char* name :
       {"nvidia4", "nvidia5", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia", "sda1"})
    std::ofstream(devices / name);
  EXPECT_EQ(GpusIn(devices.string()), 3u);
  EXPECT_EQ(GpusIn(devices.string() + "/none"), 0u);
}

}  // namespace
}  // namespace longwave
