#include "worker/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"
#include "worker/data/data_files.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct TextFolder : TestFolder {
  void Write(const std::string& name, const std::string& text) const {
    const fs::path file = fs::path(path()) / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
};

std::string Alphabet(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text.push_back(static_cast<char>('a' + i % 26));
  return text;
}

Corpus MakeCorpus(size_t size = 1000, double share = 0.1, uint32_t context = 8) {
  return *Corpus::FromText(Alphabet(size), share, context, "text");
}

std::string TextOf(const Corpus& corpus, uint64_t begin, uint64_t count) {
  const std::vector<int64_t> tokens = *corpus.Tokens(begin, count);
  return {tokens.begin(), tokens.end()};
}

TEST(Corpus, SplitsByBytes) {
  const Corpus corpus = MakeCorpus(1000, 0.1);
  EXPECT_EQ(corpus.train_count(), 900u);
  EXPECT_EQ(TextOf(corpus, 900, 100), Alphabet(1000).substr(900));
}

TEST(Corpus, ReadsAFolderInTheOrderOfPaths) {
  TextFolder folder;
  folder.Write("b.txt", "second ");
  folder.Write("a/z.txt", "first ");
  folder.Write("c/a/x.txt", "third ");
  folder.Write("c/b", "fourth");
  const auto corpus = Corpus::Load({.kind = "text", .path = folder.path(), .validation_share = 0.2},
                                   {.context = 1});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(TextOf(*corpus, 0, 25), "first second third fourth");
}

TEST(Corpus, ReadsOneFileAsItIs) {
  TextFolder folder;
  const std::string bytes("\0\xff\r\n text", 9);
  folder.Write("file", bytes);
  const auto corpus = Corpus::Load(
      {.kind = "bytes", .path = folder.path() + "/file", .validation_share = 0.25}, {.context = 1});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(TextOf(*corpus, 0, bytes.size()), bytes);
}

TEST(Corpus, FindsTheCompilersHeaders) {
  const auto files = DataFiles(kCompilerHeaders);
  if (!fs::exists("/usr/include/c++")) GTEST_SKIP() << "no libstdc++ headers on this machine";
  ASSERT_TRUE(files.ok()) << files.status();
  std::set<std::string> folders;
  bool has_vector = false;
  for (const std::string& file : *files) {
    folders.insert(file.substr(0, file.find('/', sizeof("/usr/include/c++"))));
    has_vector |= file.ends_with("/vector");
  }
  EXPECT_EQ(folders.size(), 1u) << "headers of one compiler alone";
  EXPECT_TRUE(has_vector);
}

TEST(Corpus, NamesAPathThatIsMissing) {
  const auto corpus = Corpus::Load(
      {.kind = "text", .path = "/no/such/text", .validation_share = 0.1}, {.context = 8});
  EXPECT_EQ(corpus.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(corpus.status().message()), HasSubstr("/no/such/text"));
}

TEST(Corpus, NamesAPathThatHoldsNoText) {
  TextFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/null"), std::string("/dev/zero"), pipe}) {
    EXPECT_EQ(DataFiles(path).status(),
              absl::InvalidArgumentError("data: " + path +
                                         " is not a file or folder; wanted a file, a "
                                         "folder or compiler-headers"));
  }
  EXPECT_EQ(DataFiles("").status().message(),
            "data: got an empty path, wanted a file, a folder or compiler-headers");
}

TEST(Corpus, NamesTheFolderThatCannotBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "the superuser may read everything";
  TextFolder folder;
  folder.Write("closed/text", "text");
  const std::string closed = folder.path() + "/closed";
  ASSERT_EQ(chmod(closed.c_str(), 0), 0);
  const absl::Status folder_status = DataFiles(folder.path()).status();
  const absl::Status file_status = DataFiles(closed + "/text").status();
  ASSERT_EQ(chmod(closed.c_str(), 0700), 0);
  EXPECT_EQ(folder_status, absl::PermissionDeniedError("data: " + closed + ": Permission denied"));
  EXPECT_EQ(file_status,
            absl::PermissionDeniedError("data: " + closed + "/text: Permission denied"));
}

TEST(Corpus, IsFollowedThroughLinksToFilesButNotToFolders) {
  TextFolder folder;
  folder.Write("a/text", "text");
  fs::create_directory_symlink(folder.path(), folder.path() + "/a/circle");
  fs::create_symlink(folder.path() + "/a/text", folder.path() + "/link");
  EXPECT_THAT(*DataFiles(folder.path()),
              ::testing::ElementsAre(folder.path() + "/a/text", folder.path() + "/link"));
}

TEST(Corpus, LeavesOutWhatAFolderHasBesideFilesAndSaysSo) {
  TextFolder folder;
  folder.Write("text", "text");
  folder.Write(".DS_Store", "x");
  folder.Write(".git/objects/pack", "x");
  fs::create_directory(folder.path() + "/other");
  fs::create_directory_symlink("other", folder.path() + "/linked");
  fs::create_symlink("/nowhere/at/all", folder.path() + "/gone");
  std::vector<std::string> left_out;
  EXPECT_THAT(*DataFiles(folder.path(), &left_out),
              ::testing::ElementsAre(folder.path() + "/text"));
  EXPECT_THAT(left_out,
              ::testing::UnorderedElementsAre(folder.path() + "/.DS_Store: a hidden name",
                                              folder.path() + "/.git: a hidden name",
                                              folder.path() + "/linked: a link to a folder",
                                              folder.path() + "/gone: a link to no file"));
}

TEST(Corpus, SaysWhatAPathThatIsMissingMayMean) {
  TextFolder folder;
  folder.Write("corpus.bin", "x");
  for (const auto& [path, hint] : std::vector<std::pair<std::string, std::string>>{
           {"-", "standard input has no size"},
           {"~/books", "a shell replaces ~ only"},
           {"https://example.org/a.txt", "as by curl -LO"},
           {"s3://bucket/a.txt", "as by rclone copy"},
           {folder.path() + "/corpus", "; there is " + folder.path() + "/corpus.bin"},
           {"roneneldan/TinyStories", "hf download roneneldan/TinyStories --repo-type dataset"}}) {
    EXPECT_THAT(std::string(DataFiles(path).status().message()),
                ::testing::AllOf(HasSubstr(path + " does not exist"), HasSubstr(hint)));
  }
}

TEST(Corpus, ReportsWhatItReads) {
  TextFolder folder;
  folder.Write("a.txt", "\xef\xbb\xbf \n  Once upon a time\r\n" + Alphabet(1000));
  folder.Write("b.txt", Alphabet(100));
  const DataSection data{.kind = "text", .path = folder.path(), .validation_share = 0.1};
  const auto corpus = Corpus::Load(data, {.context = 8});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(
      corpus->report().lines,
      ::testing::ElementsAre("data      text, 2 files, 1.0 kB to train on, begins Once upon a time",
                             "held out  113 B at the end"));
  EXPECT_EQ(TextOf(*corpus, 0, 8), " \n  Once") << "without the byte order mark";
  const uint64_t hash = corpus->report().hash;
  folder.Write("b.txt", Alphabet(99) + "!");
  EXPECT_NE(Corpus::Load(data, {.context = 8})->report().hash, hash);
  folder.Write("b.txt", Alphabet(100));
  fs::rename(folder.path() + "/b.txt", folder.path() + "/c.txt");
  EXPECT_EQ(Corpus::Load(data, {.context = 8})->report().hash, hash) << "of the content alone";
}

TEST(Corpus, ReadsAMountedConfigMapOnce) {
  TextFolder folder;
  folder.Write("..2026_11_21/text", "text");
  fs::create_directory_symlink("..2026_11_21", folder.path() + "/..data");
  fs::create_symlink("..data/text", folder.path() + "/text");
  EXPECT_THAT(*DataFiles(folder.path()), ::testing::ElementsAre(folder.path() + "/text"));
}

TEST(Corpus, RefusesAFolderWithoutBytes) {
  TextFolder folder;
  folder.Write("empty", "");
  const auto corpus = Corpus::Load({.kind = "text", .path = folder.path(), .validation_share = 0.1},
                                   {.context = 8});
  EXPECT_EQ(corpus.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(corpus.status().message()), HasSubstr("holds no bytes"));
}

TEST(Corpus, RefusesPartsTooShortForASequence) {
  // 90 and 10 bytes: a sequence of 9 and its target fit into both, one of 10 does not.
  EXPECT_TRUE(Corpus::FromText(Alphabet(100), 0.1, 9, "text").ok());
  const auto corpus = Corpus::FromText(Alphabet(100), 0.1, 10, "text");
  EXPECT_EQ(corpus.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(corpus.status().message()),
              HasSubstr("leaves 10 bytes to the validation part; wanted at least 11"));
}

TEST(Corpus, TrainBatchesDependOnTheirArgumentsAlone) {
  const Corpus corpus = MakeCorpus();
  const Batch batch = *corpus.TrainBatch(1, 2, 3, 4);
  EXPECT_EQ(batch, *MakeCorpus().TrainBatch(1, 2, 3, 4));
  EXPECT_NE(batch, *corpus.TrainBatch(2, 2, 3, 4));
  EXPECT_NE(batch, *corpus.TrainBatch(1, 3, 3, 4));
  EXPECT_NE(batch, *corpus.TrainBatch(1, 2, 4, 4));
}

TEST(Corpus, TargetsAreTheTokensOnePlaceLater) {
  const Corpus corpus = MakeCorpus();
  for (const Batch& batch : {*corpus.TrainBatch(7, 0, 0, 3), *corpus.ValidationBatch(1, 2, 3)}) {
    ASSERT_EQ(batch.tokens.size(), 24u);
    ASSERT_EQ(batch.targets.size(), 24u);
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      EXPECT_EQ(batch.targets[i], 'a' + (batch.tokens[i] - 'a' + 1) % 26);
    }
  }
}

TEST(Corpus, TrainBatchesReachBothEndsOfTheTrainingPart) {
  // 10 bytes of training text and sequences of 8: windows start at 0 or 1 and at nothing else.
  const Corpus corpus = *Corpus::FromText(Alphabet(20), 0.5, 8, "text");
  std::set<int64_t> first;
  for (uint64_t step = 0; step < 64; ++step) {
    first.insert(corpus.TrainBatch(1, 0, step, 1)->tokens[0]);
  }
  EXPECT_EQ(first, (std::set<int64_t>{'a', 'b'}));
}

TEST(Corpus, ValidationBatchesSpreadOverTheValidationPart) {
  const Corpus corpus =
      *Corpus::FromText(std::string(100, 'x') + Alphabet(26), 26.0 / 126, 5, "text");
  ASSERT_EQ(TextOf(corpus, 100, 26), Alphabet(26));
  std::string starts;
  for (uint32_t i = 0; i < 3; ++i) {
    const Batch batch = *corpus.ValidationBatch(i, 3, 2);
    starts.push_back(static_cast<char>(batch.tokens[0]));
    starts.push_back(static_cast<char>(batch.tokens[5]));
  }
  EXPECT_EQ(starts, "adhkor");  // 21 starts, six windows: every 3.5 bytes
}

}  // namespace
}  // namespace longwave
