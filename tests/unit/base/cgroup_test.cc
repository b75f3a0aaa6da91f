#include "common/base/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/test_folder.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

class CgroupMemory : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text << "\n";
  }
  std::optional<MachineMemory> Read(const std::string& self) const {
    Write("self", self);
    return ReadCgroupMemory(folder_.string(), (folder_ / "self").string());
  }
  void ExpectMemory(const std::string& self, double total, double available) const {
    const auto memory = Read(self);
    ASSERT_TRUE(memory.has_value());
    EXPECT_EQ(memory->total_bytes, total);
    EXPECT_EQ(memory->available_bytes, available);
  }

  const TestFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(CgroupMemory, IsNothingWithoutALimit) {
  EXPECT_FALSE(Read("0::/").has_value());
  Write("pod/memory.max", "max");
  Write("pod/memory.current", "5000");
  EXPECT_FALSE(Read("0::/pod").has_value());
  Write("memory/memory.limit_in_bytes", "9223372036854771712");
  Write("memory/memory.usage_in_bytes", "5000");
  EXPECT_FALSE(Read("7:cpu,memory:/").has_value());
  EXPECT_FALSE(Read("no such line").has_value());
  EXPECT_FALSE(ReadCgroupMemory("/nowhere", "/nowhere").has_value());
}

// The view of a container with its own namespace. The system frees pages of files when needed.
TEST_F(CgroupMemory, IsWhatItsGroupLeaves) {
  Write("memory.max", "4000");
  Write("memory.current", "3000");
  Write("memory.stat", "anon 500\ninactive_file 1500");
  ExpectMemory("0::/", 4000, 2500);
}

TEST_F(CgroupMemory, IsTheLeastOfTheGroupsAbove) {
  Write("a/memory.max", "4000");
  Write("a/memory.current", "3900");
  Write("a/b/memory.max", "max");
  Write("a/b/memory.current", "10");
  Write("a/b/c/memory.max", "2000");
  Write("a/b/c/memory.current", "1000");
  ExpectMemory("0::/a/b/c", 2000, 100);
}

// Without such a namespace the path is the host's, and the container's own group is the mount.
TEST_F(CgroupMemory, OfVersion1IsFoundAboveAPathThatIsNotThere) {
  Write("memory/memory.limit_in_bytes", "4000");
  Write("memory/memory.usage_in_bytes", "5000");
  Write("memory/memory.stat", "total_inactive_file 100");
  ExpectMemory("9:cpu:/x\n4:memory:/kubepods/pod7/c\n0::/", 4000, 0);
}

class CgroupCores : public CgroupMemory {
 protected:
  std::optional<double> Cores(const std::string& self) const {
    Write("self", self);
    return ReadCgroupCores(folder_.string(), (folder_ / "self").string());
  }
};

TEST_F(CgroupCores, AreNothingWithoutAQuota) {
  EXPECT_EQ(Cores("0::/"), std::nullopt);
  Write("pod/cpu.max", "max 100000");
  EXPECT_EQ(Cores("0::/pod"), std::nullopt);
  Write("cpu/cpu.cfs_quota_us", "-1");
  Write("cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Cores("7:cpu,cpuacct:/"), std::nullopt);
  EXPECT_EQ(ReadCgroupCores("/nowhere", "/nowhere"), std::nullopt);
}

TEST_F(CgroupCores, AreTheLeastQuotaOfTheGroupsAbove) {
  Write("a/cpu.max", "150000 100000");
  Write("a/b/cpu.max", "max 100000");
  Write("a/b/c/cpu.max", "400000 100000");
  EXPECT_EQ(Cores("0::/a/b/c"), 1.5);
}

TEST_F(CgroupCores, OfVersion1AreFoundAboveAPathThatIsNotThere) {
  Write("cpu/cpu.cfs_quota_us", "25000");
  Write("cpu/cpu.cfs_period_us", "50000");
  EXPECT_EQ(Cores("4:memory:/x\n9:cpuacct,cpu:/kubepods/pod7/c\n0::/"), 0.5);
}

}  // namespace
}  // namespace longwave
