#include "cli/programs/programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

// The folder of the tests' programs has no longwave-worker, as that of the Python package.
TEST(WorkerFolder, IsWherePathLeadsOrNowhere) {
  const TestFolder temporary;
  const std::string folder = temporary.path();
  const std::string path = std::getenv("PATH");
  setenv("PATH", (path + ":" + folder).c_str(), 1);
  const auto nowhere = WorkerFolder();
  const std::string worker = folder + "/longwave-worker";
  std::ofstream(worker) << "#!/bin/sh\n";
  const auto no_program = WorkerFolder();
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const auto found = WorkerFolder();
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(nowhere.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(nowhere.status().message()), HasSubstr("the worker's archive"));
  EXPECT_EQ(no_program.status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, folder);
}

}  // namespace
}  // namespace longwave
