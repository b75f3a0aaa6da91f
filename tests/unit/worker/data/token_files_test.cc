#include "worker/data/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"
#include "worker/data/corpus.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenFiles : public testing::Test {
 protected:
  template <typename Number>
  void Write(const std::string& name, const std::vector<Number>& numbers) {
    std::ofstream(folder_ + "/" + name, std::ios::binary | std::ios::app)
        .write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size() * sizeof(Number)));
  }
  void WriteShard(const std::string& name, const std::vector<uint16_t>& tokens, int32_t version = 1,
                  int32_t more = 0) {
    std::vector<int32_t> header(256);
    header[0] = 20240520;
    header[1] = version;
    header[2] = static_cast<int32_t>(tokens.size()) + more;
    Write(name, header);
    Write(name, tokens);
  }
  std::string LoadError() const {
    const absl::StatusOr<Corpus> corpus = Corpus::Load(data_, model_);
    EXPECT_EQ(CheckCorpus(data_, model_), corpus.status());
    return std::string(corpus.status().message());
  }

  const TestFolder temporary_;
  const std::string folder_ = temporary_.path();
  DataSection data_ = {
      .kind = "tokens", .path = folder_, .validation_share = 0.25, .token_type = "uint16"};
  ModelSection model_ = {.kind = "gpt", .context = 2, .vocabulary = 50257};
};

TEST_F(TokenFiles, AreReadAsIfTheyWereOne) {
  Write<uint16_t>("a.bin", {1, 2, 50256});
  WriteShard("b.bin", {4, 5, 6, 7});
  WriteShard("c.bin", {});
  Write<uint16_t>("d.bin", {8});
  EXPECT_THAT(LoadError(), HasSubstr("leaves 2 tokens to the validation part"));
  data_.validation_share = 0.5;
  const auto corpus = Corpus::Load(data_, model_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->Size(), "4 tokens");
  EXPECT_THAT(*corpus->Tokens(0, 8), ElementsAre(1, 2, 50256, 4, 5, 6, 7, 8));
  EXPECT_THAT(*corpus->Tokens(2, 2), ElementsAre(50256, 4));
}

TEST_F(TokenFiles, OfThirtyTwoBitsAreToldByTheConfiguration) {
  data_.token_type = "uint32";
  model_.vocabulary = 200'000;
  Write<uint32_t>("a.bin", {1, 2, 3, 199'999, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto corpus = Corpus::Load(data_, model_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(*corpus->Tokens(3, 2), ElementsAre(199'999, 5));
}

TEST_F(TokenFiles, APatternChoosesAndValidationMayHaveItsOwn) {
  Write<uint16_t>("train_0.bin", {1, 2, 3});
  Write<uint16_t>("train_1.bin", {4, 5, 6});
  Write<uint16_t>("val.bin", {100, 101, 102, 103});
  data_.path = folder_ + "/train_*.bin";
  data_.validation_path = folder_ + "/val.bin";
  const auto data = Corpus::Load(data_, model_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->Size(), "6 tokens");
  for (uint64_t step = 0; step < 50; ++step) {
    const Batch batch = *data->TrainBatch(1, 0, step, 2);
    for (const int64_t target : batch.targets) EXPECT_LE(target, 6);
  }
  EXPECT_THAT(data->ValidationBatch(0, 1, 2)->tokens, ElementsAre(100, 101, 101, 102));
}

TEST_F(TokenFiles, ATokenOutOfTheVocabularyIsRefusedWithItsPlace) {
  Write<uint16_t>("a.bin", {1, 2, 3, 4, 5, 6, 7, 8});
  WriteShard("b.bin", {1, 2, 3, 300});
  model_.vocabulary = 256;
  const auto corpus = Corpus::Load(data_, model_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->TrainBatch(1, 0, 0, 8).status(), absl::OkStatus());
  EXPECT_EQ(corpus->ValidationBatch(0, 1, 8).status(),
            absl::InvalidArgumentError("data: " + folder_ +
                                       "/b.bin: token 3 is 300, wanted one below model.vocabulary "
                                       "(256)"));
}

TEST_F(TokenFiles, AreNotWhatLiesBesideThem) {
  Write<uint16_t>("a.bin", {1, 2, 3, 4, 5, 6, 7, 8});
  Write<uint8_t>("tokenizer.json", std::vector<uint8_t>(64, '{'));
  EXPECT_EQ(LoadError(), "data: got " + folder_ + "/tokenizer.json, wanted files of tokens: a " +
                             "pattern such as '" + folder_ + "/*.bin'");
}

TEST_F(TokenFiles, AreRefusedWhereTheyAreNotWhole) {
  Write<uint8_t>("a.bin", {1, 2, 3});
  EXPECT_EQ(LoadError(), "data: " + folder_ +
                             "/a.bin: got 3 bytes, wanted whole tokens of 2 bytes "
                             "(data.token_type)");
  std::filesystem::remove(folder_ + "/a.bin");
  WriteShard("b.bin", {1, 2, 3}, 1, 1);
  EXPECT_THAT(LoadError(), HasSubstr("b.bin: got 6 bytes after its header, wanted those of the 4 "
                                     "tokens that it tells of"));
  std::filesystem::remove(folder_ + "/b.bin");
  WriteShard("c.bin", {1, 2, 3}, 2);
  EXPECT_THAT(LoadError(), HasSubstr("got a shard of llm.c of version 2, wanted version 1"));
  std::filesystem::remove(folder_ + "/c.bin");
  Write<uint16_t>("d.bin", {});
  EXPECT_THAT(LoadError(), HasSubstr("holds no tokens; wanted tokens"));
  Write<uint16_t>("d.bin", {1, 2, 3, 4});
  EXPECT_THAT(LoadError(), HasSubstr("leaves 1 tokens to the validation part; wanted at least 3"));
  data_.validation_path = folder_ + "/none*";
  EXPECT_THAT(LoadError(), HasSubstr("none* does not exist"));
}

}  // namespace
}  // namespace longwave
