#include "worker/models/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

const char kFile[] = LONGWAVE_SOURCE_DIR "/tests/golden/tokenizer.json";

std::string Decoded(const Tokenizer& tokenizer, const std::vector<int64_t>& tokens) {
  std::string text;
  for (const int64_t token : tokens) text += tokenizer.BytesOf(static_cast<size_t>(token));
  return text;
}

// The file and the tokens are those of PyPI's tokenizers 0.22.2: make_tokens' BPE of README.md with
// 320 tokens.
TEST(Tokenizer, MakesTheTokensOfThePackageThatLearntThem) {
  const auto tokenizer = Tokenizer::Read(kFile);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->size(), 320u);
  const std::vector<std::pair<std::string, std::vector<int64_t>>> texts = {
      {"the worker's weights", {314, 68, 269, 307, 6, 82, 269, 68, 312, 71, 83, 82}},
      {"a  b\n\n  c", {64, 220, 279, 198, 198, 220, 280}},
      {"x1y22 3", {87, 16, 88, 17, 17, 220, 18}},
      {"don't they'll I've", {67, 260, 6, 83, 268, 88, 6, 75, 75, 220, 40, 6, 302}},
      {"größer — ok", {70, 81, 127, 114, 127, 253, 261, 220, 158, 222, 242, 276, 74}},
      {"  ", {256}},
      {" end ", {220, 68, 270, 220}},
      {"\tif (a==b) {\n    return;\n}\n",
       {197, 72, 69, 220, 7, 64, 28, 28, 65, 8, 220, 90, 310, 281, 290, 288, 77, 26, 198, 92, 198}},
      {"the the the", {314, 68, 268, 268}},
      {"'s", {6, 82}},
      {"", {}},
  };
  for (const auto& [text, tokens] : texts) {
    EXPECT_EQ(tokenizer->Encode(text), tokens) << text;
    EXPECT_EQ(Decoded(*tokenizer, tokens), text);
  }
  EXPECT_EQ(tokenizer->BytesOf(320), "");
}

TEST(Tokenizer, TakesAnyBytes) {
  const auto tokenizer = Tokenizer::Read(kFile);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(Decoded(*tokenizer, tokenizer->Encode(all)), all);
}

TEST(Tokenizer, SaysWhatAnotherFileIs) {
  const TestFolder folder;
  const std::string path = folder.path() + "/tokenizer.json";
  EXPECT_EQ(Tokenizer::Read(path).status().message(),
            "cannot read " + path + ": No such file or directory");
  for (const auto& [text, got] : std::vector<std::pair<std::string, std::string>>{
           {"no json", "got no tokenizer; wanted a byte-level BPE"},
           {R"({"model": {"type": "Unigram"}, "pre_tokenizer": {"type": "Metaspace"}})",
            "got a tokenizer of Unigram after Metaspace"},
           {R"({"model": 3, "pre_tokenizer": null})", "got a tokenizer of  after "},
           {R"({"model": {"type": "BPE"}, "pre_tokenizer": {"type": "ByteLevel"}})",
            "got no vocabulary with merges"},
           {R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []},
                "pre_tokenizer": {"type": "ByteLevel"}})",
            "got the token -1 of a"},
           {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
                "pre_tokenizer": {"type": "ByteLevel"}})",
            "got no token for the byte 0"}}) {
    std::ofstream(path) << text;
    EXPECT_THAT(std::string(Tokenizer::Read(path).status().message()), HasSubstr(got));
  }
}

}  // namespace
}  // namespace longwave
