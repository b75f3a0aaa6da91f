#include "common/base/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

class NewFileTest : public testing::Test {
 protected:
  const TestFolder temporary_;
  const std::string root_ = temporary_.path();
};

TEST_F(NewFileTest, AppearsWholeWithItsModeOrNotAtAll) {
  const std::string path = root_ + "/key";
  std::ofstream(path) << "an older one";
  {
    NewFile unfinished(path, 0600);
    ASSERT_TRUE(unfinished.Write("half", 4).ok());
  }
  std::string content;
  EXPECT_TRUE(std::getline(std::ifstream(path), content));
  EXPECT_EQ(content, "an older one");
  ASSERT_TRUE(WriteFile(path, "a key", 0600).ok());
  EXPECT_TRUE(std::getline(std::ifstream(path), content));
  EXPECT_EQ(content, "a key");
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_), {}), 1);
}

TEST_F(NewFileTest, WhereNoFileCanBeWrittenIsKnownBeforehand) {
  EXPECT_TRUE(NewFile(root_ + "/figures.json").status().ok());
  EXPECT_TRUE(std::filesystem::is_empty(root_)) << "it leaves nothing behind";
  const absl::Status refused = NewFile(root_ + "/missing/figures.json").status();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("cannot write " + root_ + "/missing/figures.json: No such"));
  EXPECT_EQ(refused, WriteFile(root_ + "/missing/figures.json", "{}"));
}

TEST_F(NewFileTest, AFolderIsNoFileToWrite) {
  std::filesystem::create_directories(root_ + "/out");
  const absl::Status refused = NewFile(root_ + "/out").status();
  EXPECT_EQ(refused.message(), absl::StrCat("cannot write ", root_, "/out: Is a directory"));
  EXPECT_EQ(refused, WriteFile(root_ + "/out", "{}"));
  EXPECT_TRUE(std::filesystem::is_empty(root_ + "/out"));
  std::filesystem::remove(root_ + "/out");
  EXPECT_TRUE(std::filesystem::is_empty(root_)) << "nothing is left behind";
}

TEST_F(NewFileTest, ADeviceIsNoFileToReplace) {
  const std::string pipe = root_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(WriteFile(pipe, "{}").message(),
            absl::StrCat("cannot write ", pipe, ": Invalid argument"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST_F(NewFileTest, ALinkStaysAndItsFileIsReplaced) {
  std::filesystem::create_directories(root_ + "/far");
  std::ofstream(root_ + "/far/file") << "older";
  std::filesystem::create_symlink(root_ + "/far/file", root_ + "/link");
  ASSERT_TRUE(WriteFile(root_ + "/link", "newer").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(root_ + "/link"));
  std::string content;
  EXPECT_TRUE(std::getline(std::ifstream(root_ + "/far/file"), content));
  EXPECT_EQ(content, "newer");
  std::filesystem::remove(root_ + "/far/file");
  ASSERT_TRUE(WriteFile(root_ + "/link", "the first").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(root_ + "/link"));
  EXPECT_TRUE(std::filesystem::is_regular_file(root_ + "/far/file"));
}

TEST_F(NewFileTest, WhatSomebodyElseHasWrittenBesideItStays) {
  const std::string path = root_ + "/figures.json";
  std::ofstream(path + ".tmp") << "mine";
  EXPECT_TRUE(NewFile(path).status().ok());
  EXPECT_TRUE(WriteFile(path, "{}").ok());
  std::string word;
  EXPECT_TRUE(std::ifstream(path + ".tmp") >> word);
  EXPECT_EQ(word, "mine");
}

}  // namespace
}  // namespace longwave
