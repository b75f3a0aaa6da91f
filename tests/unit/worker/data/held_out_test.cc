#include "worker/data/held_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"
#include "worker/data/corpus.h"
#include "worker/data/data_files.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HeldOut : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) const {
    const fs::path file = fs::path(folder_) / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  }
  absl::StatusOr<Corpus> Load(double share = 0.25, const std::string& validation = "") const {
    return Corpus::Load(
        {.kind = "text", .path = folder_, .validation_path = validation, .validation_share = share},
        {.context = 2});
  }
  static std::string TrainingPart(const Corpus& corpus) {
    const std::vector<int64_t> tokens = *corpus.Tokens(0, corpus.train_count());
    return {tokens.begin(), tokens.end()};
  }

  const TestFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(HeldOut, IsNoFileThatIsThereAgain) {
  Write("a.txt", "abcdef");
  Write("b.txt", "ghijkl");
  Write("c.txt", "abcdef");  // a quarter of all is its last letters
  const auto corpus = Load();
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(TrainingPart(*corpus), "ghijkla");
  EXPECT_THAT(corpus->report().lines, Contains("left out  " + folder_ +
                                               "/a.txt: its content is held "
                                               "out as " +
                                               folder_ + "/c.txt"));
  // A file may train twice.
  Write("c.txt", "mnopqr");
  Write("b.txt", "abcdef");
  EXPECT_EQ(TrainingPart(*Load()), "abcdefabcdefm");
}

TEST_F(HeldOut, AFileOfItsOwnIsLeftOutOfTheOthers) {
  Write("a.txt", "abcdefgh");
  Write("b.txt", "12345");
  EXPECT_EQ(TrainingPart(*Load(0, folder_ + "/b.txt")), "abcdefgh");
  // The held-out file was taken from the other's end, or beginning.
  Write("b.txt", "efgh");
  EXPECT_EQ(TrainingPart(*Load(0, folder_ + "/b.txt")), "abcd");
  Write("b.txt", "abc");
  const auto corpus = Load(0, folder_ + "/b.txt");
  EXPECT_EQ(TrainingPart(*corpus), "defgh");
  EXPECT_THAT(corpus->report().lines,
              Contains(HasSubstr("a.txt: its beginning is held out as " + folder_ + "/b.txt")));
  EXPECT_EQ(corpus->report().lines[1], "held out  3 B of 1 file, " + folder_ + "/b.txt");
  Write("b.txt", "abcdefgh");
  EXPECT_THAT(std::string(Load(0, folder_ + "/b.txt").status().message()),
              HasSubstr("leaves 0 bytes to the training part"));
}

TEST_F(HeldOut, EmptyFilesAreNoContent) {
  for (const char* name : {"a.txt", "c.txt", "d.txt"}) Write(name, "");
  Write("b.txt", "abcdefghijkl");
  EXPECT_EQ(Load()->report().lines.size(), 2u);
}

TEST_F(HeldOut, IsTheFileThatIsNamedSo) {
  Write("train.bin", "abcdefgh");
  Write("val.bin", "12345");
  Write("test.bin", "6789");
  const auto corpus = Load();
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(TrainingPart(*corpus), "abcdefgh");
  EXPECT_THAT(corpus->report().lines,
              ElementsAre("data      text, 1 file, 8 B to train on, begins abcdefgh",
                          "held out  5 B of 1 file, " + folder_ + "/val.bin",
                          "left out  " + folder_ + "/test.bin: named as test data"));
}

TEST_F(HeldOut, NamesAreOfAWholeDataSet) {
  const auto taken = [](std::vector<std::string> files) {
    std::vector<std::string> left_out;
    return TakeHeldOut(&files, &left_out);
  };
  EXPECT_THAT(taken({"/d/fineweb_train_000001.bin", "/d/fineweb_val_000000.bin"}),
              ElementsAre("/d/fineweb_val_000000.bin"));
  EXPECT_THAT(taken({"/d/train/a.txt", "/d/train/b.txt", "/d/validation/a.txt"}),
              ElementsAre("/d/validation/a.txt"));
  EXPECT_THAT(taken({"/d/wiki.train.tokens", "/d/wiki.valid.tokens"}),
              ElementsAre("/d/wiki.valid.tokens"));
  // Sources of a program that trains.
  EXPECT_THAT(taken({"/d/model.py", "/d/train.py", "/d/val.py"}), IsEmpty());
  EXPECT_THAT(taken({"/val/train.py", "/val/train2.py"}), IsEmpty());
  EXPECT_THAT(taken({"/d/val.bin"}), IsEmpty());
  EXPECT_THAT(taken({"/d/trains.txt", "/d/values.txt"}), IsEmpty());
}

}  // namespace
}  // namespace longwave
