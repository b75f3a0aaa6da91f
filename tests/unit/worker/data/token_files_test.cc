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
  template <typename Number>
  void WriteShardOf(int32_t magic, const std::string& name, const std::vector<Number>& tokens,
                    int32_t version, int32_t more = 0) {
    std::vector<int32_t> header(256);
    header[0] = magic;
    header[1] = version;
    header[2] = static_cast<int32_t>(tokens.size()) + more;
    Write(name, header);
    Write(name, tokens);
  }
  void WriteShard(const std::string& name, const std::vector<uint16_t>& tokens, int32_t version = 1,
                  int32_t more = 0) {
    WriteShardOf(20240520, name, tokens, version, more);
  }
  // The beginning of Megatron's index, up to the type of its tokens.
  void WriteIndex(const std::string& name, uint8_t type) {
    Write<char>(name, {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0, 1, 0, 0, 0, 0, 0, 0, 0});
    Write<uint8_t>(name, {type});
  }
  std::string LoadError() const {
    return std::string(Corpus::Load(data_, model_).status().message());
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
  EXPECT_EQ(LoadError(),
            "data: " + folder_ + "/b.bin: token 3 is 300, wanted one below model.vocabulary (256)");
  // Far inside, of both widths.
  std::vector<uint16_t> tokens(2'000'000, 7);
  tokens[1'500'003] = 256;
  std::filesystem::remove(folder_ + "/b.bin");
  Write("b.bin", tokens);
  EXPECT_THAT(LoadError(), HasSubstr("b.bin: token 1500003 is 256, wanted"));
  std::filesystem::remove(folder_ + "/b.bin");
  WriteShardOf<uint32_t>(20240801, "b.bin", {tokens.begin(), tokens.end()}, 7);
  EXPECT_THAT(LoadError(), HasSubstr("b.bin: token 1500003 is 256, wanted"));
}

TEST_F(TokenFiles, OfLlama3AreOfThirtyTwoBits) {
  WriteShardOf<uint32_t>(20240801, "a.bin", {1, 2, 3, 128'255, 5, 6, 7, 8, 9, 10, 11, 12}, 7);
  model_.vocabulary = 128'256;
  const auto corpus = Corpus::Load(data_, model_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(*corpus->Tokens(2, 3), ElementsAre(3, 128'255, 5));
  EXPECT_THAT(corpus->report().lines,
              ElementsAre("data      tokens, 1 file, 9 tokens to train on, the largest 128255",
                          "held out  3 tokens at the end"));
  WriteShardOf<uint32_t>(20240801, "b.bin", {1, 2, 3}, 1);
  EXPECT_THAT(LoadError(), HasSubstr("got a shard of llm.c of version 1, wanted version 7"));
}

TEST_F(TokenFiles, OfMegatronHaveTheWidthThatTheIndexTells) {
  Write<uint32_t>("a.bin", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  WriteIndex("a.idx", 4);
  const auto corpus = Corpus::Load(data_, model_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(*corpus->Tokens(0, 12), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_EQ(corpus->report().lines.back(), "left out  " + folder_ + "/a.idx: not named *.bin");
  std::filesystem::remove(folder_ + "/a.idx");
  WriteIndex("a.idx", 8);
  EXPECT_THAT(*Corpus::Load(data_, model_)->Tokens(0, 4), ElementsAre(1, 0, 2, 0));
  std::filesystem::remove(folder_ + "/a.idx");
  WriteIndex("a.idx", 6);
  EXPECT_THAT(LoadError(), HasSubstr("a.idx: got tokens of Megatron's type 6, wanted 8"));
}

TEST_F(TokenFiles, AreNotWhatLiesBesideThem) {
  Write<uint8_t>("tokenizer.json", std::vector<uint8_t>(64, '{'));
  EXPECT_EQ(LoadError(), "data: " + folder_ + " has no *.bin, got " + folder_ +
                             "/tokenizer.json, wanted files of tokens; a pattern such as '" +
                             folder_ + "/*' takes those of other names");
  Write<uint16_t>("a.bin", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto corpus = Corpus::Load(data_, model_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->Size(), "9 tokens");
  EXPECT_EQ(corpus->report().lines.back(),
            "left out  " + folder_ + "/tokenizer.json: not named *.bin");
}

TEST_F(TokenFiles, AreRefusedWhereTheyAreNotWhole) {
  Write<uint8_t>("a.bin", {1, 2, 3});
  EXPECT_EQ(LoadError(), "data: " + folder_ +
                             "/a.bin: got 3 bytes, wanted whole tokens of 2 bytes "
                             "(data.token_type)");
  std::filesystem::remove(folder_ + "/a.bin");
  WriteShard("b.bin", {1, 2, 3}, 1, 1);
  EXPECT_THAT(LoadError(), HasSubstr("b.bin: got 6 bytes after its header, wanted those of the 4 "
                                     "tokens that it counts"));
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
