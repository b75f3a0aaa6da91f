#include "worker/data/file_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"
#include "tests/unit/worker/data/packed.h"
#include "worker/data/corpus.h"

namespace longwave {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::string_literals;

const std::string kProse =
    "the cat sat on a mat and saw another cat with its hat under grey rain\n";

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string TextRefusal(const std::string& content, const std::string& path = "f") {
  return std::string(CheckText(path, content).message());
}

std::string TokensRefusal(const std::string& content, const std::string& path = "f",
                          uint32_t width = 2) {
  return std::string(CheckTokens(path, content, width).message());
}

std::string Numbers(const std::vector<int32_t>& first, size_t count = 256) {
  std::vector<int32_t> numbers = first;
  numbers.resize(count);
  return {reinterpret_cast<const char*>(numbers.data()), count * sizeof(int32_t)};
}

TEST(FileForm, TextMayHaveAnyLettersAndItsUsualControls) {
  for (const std::string& text :
       {""s, kProse, "caf\xe9 in latin-1\r\n"s, "a page\f\ttab\v\b"s, "\x1b[31mred\x1b[0m"s,
        "\xd0\xb4\xd0\xb0"s, Repeated(kProse, 100) + '\x01'}) {
    EXPECT_EQ(CheckText("f", text), absl::OkStatus()) << text;
  }
}

TEST(FileForm, BytesOfNoTextAreRefusedWithThePlace) {
  const std::string far = Repeated(kProse, 1000) + '\0' + kProse;
  EXPECT_THAT(TextRefusal(far), HasSubstr("f: got bytes that are no text (byte 70000 is 0), wanted "
                                          "text; a pattern such as '*.txt'"));
  EXPECT_THAT(TextRefusal(Repeated("\x01\x02"
                                   "ab",
                                   9)),
              HasSubstr("--set data.kind=bytes"));
  EXPECT_THAT(TextRefusal(far, "train.bin"), HasSubstr("data.kind=tokens"));
}

TEST(FileForm, KnownFormsAreNamedWithWhatToDo) {
  const std::string tar = std::string(257, 'a') + "ustar\0"s + std::string(300, '\0');
  for (const auto& [content, name, wanted] : std::vector<std::array<std::string, 3>>{
           {"PAR1"s + kProse, "a Parquet file", "read_table('f')"},
           {"ARROW1\0\0"s, "an Arrow file", "Dataset.from_file('f')"},
           {"\xff\xff\xff\xff\x10\0\0\0"s, "an Arrow stream", "Dataset.from_file('f')"},
           {tar, "a tar archive", "tar -xf f"},
           {"PK\x03\x04\x14"s, "a zip archive", "unzip f"},
           {"\xfd"s + "7zXZ\0\0"s, "a file of xz", "unxz f"},
           {"BZh91AY&SY"s, "a file of bzip2", "bunzip2 f"},
           {"%PDF-1.7\n"s, "a PDF", "pdftotext f"},
           {"\x93NUMPY\x01"s, "a NumPy array", "numpy.load('f')"},
           {"MMIDIDX\0\0"s, "Megatron's index", "the .bin beside it"}}) {
    EXPECT_THAT(TextRefusal(content), AllOf(HasSubstr("got " + name), HasSubstr(wanted)));
    EXPECT_THAT(TokensRefusal(content), HasSubstr("got " + name));
  }
  EXPECT_THAT(TextRefusal("\xff\xfe"
                          "a\0b\0"s),
              HasSubstr("iconv -f UTF-16 -t UTF-8 f"));
  EXPECT_THAT(TextRefusal(Numbers({20240520, 1, 0})), HasSubstr("--set data.kind=tokens"));
}

TEST(FileForm, TokensAreNoTextAndNoFileOfAnotherForm) {
  EXPECT_THAT(TokensRefusal(Repeated(kProse, 20)), HasSubstr("got text, wanted files of tokens"));
  EXPECT_THAT(TokensRefusal(Numbers({20240522, 1, 3})), HasSubstr("an evaluation's questions"));
  EXPECT_THAT(TokensRefusal(Numbers({20240326, 3})), HasSubstr("a file of llm.c (20240326)"));
  EXPECT_THAT(TokensRefusal(Gzipped(kProse), "a.gz"), HasSubstr("gunzip a.gz"));
  EXPECT_THAT(TokensRefusal("\x80\x04\x95"s, "meta.pkl"), HasSubstr("a pickle of Python"));
  EXPECT_EQ(TokensRefusal(Numbers({20240520, 1, 0})), "");
  EXPECT_EQ(TokensRefusal(Numbers({20240801, 7, 0})), "");
}

TEST(FileForm, WiderTokensAreNotReadAsTwiceAsMany) {
  EXPECT_THAT(TokensRefusal(Numbers({5, 50000, 17})), HasSubstr("data.token_type=uint32"));
  EXPECT_EQ(TokensRefusal(Numbers({5, 50000, 17}), "f", 4), "");
  EXPECT_EQ(TokensRefusal(Numbers({5, 50000, 17 << 16})), "");
  EXPECT_THAT(TokensRefusal(Numbers({5, 0, 50000, 0}), "f", 4), HasSubstr("a file of 64 bits"));
  EXPECT_EQ(TokensRefusal(Numbers({})), "") << "zeros say nothing";
}

class PackedText : public testing::Test {
 protected:
  absl::StatusOr<Corpus> Load(const std::string& content) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
    return Corpus::Load({.kind = "text", .path = path_, .validation_share = 0.5}, {.context = 8});
  }
  const TestFolder folder_;
  const std::string path_ = folder_.path() + "/text.packed";
};

TEST_F(PackedText, IsReadAsWhatItHolds) {
  for (const std::string& packed : {Gzipped(kProse), Zstded(kProse)}) {
    const auto corpus = Load(packed);
    ASSERT_TRUE(corpus.ok()) << corpus.status();
    const std::vector<int64_t> tokens = *corpus->Tokens(0, kProse.size());
    EXPECT_EQ(std::string(tokens.begin(), tokens.end()), kProse);
  }
}

TEST_F(PackedText, IsLookedAtLikeTextThatIsNot) {
  const std::string tar = std::string(257, 'a') + "ustar  " + std::string(300, '\0');
  EXPECT_THAT(std::string(Load(Gzipped(tar)).status().message()), HasSubstr("got a tar archive"));
  EXPECT_EQ(Load(Gzipped(kProse).substr(0, 40)).status(),
            absl::DataLossError("data: " + path_ + ": gzip: it is cut short"));
}

}  // namespace
}  // namespace longwave
