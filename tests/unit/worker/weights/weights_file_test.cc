
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "tests/support/test_folder.h"
#include "worker/weights/safetensors.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

class WeightsFileTest : public testing::Test {
 protected:
  WeightsFileTest() {
    std::iota(theta_.begin(), theta_.end(), 0.5f);
    EXPECT_TRUE(WriteSafetensors(path_, manifest_, layout_, theta_.data(), {}).ok());
  }

  // Writes a file that is its header alone.
  void WriteHeader(const std::string& header) const {
    const uint64_t size = header.size();
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&size), sizeof(size)) << header;
  }
  absl::Status Refusal(const Manifest& manifest) const {
    return ReadWeights(path_, manifest, *Layout::Create(manifest, {})).status();
  }

  const TestFolder folder_;
  const std::string path_ = folder_.path() + "/weights.safetensors";
  // The vector comes first and lies last: the layout has matrices first.
  const Manifest manifest_{{{"bias", {3}}, {"weight", {2, 5}}}};
  const Layout layout_ = *Layout::Create(manifest_, {});
  std::vector<float> theta_ = std::vector<float>(layout_.parameter_count());
};

TEST_F(WeightsFileTest, GivesWhatAWorkerWroteInTheLayoutsOrder) {
  const auto read = ReadWeights(path_, manifest_, layout_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, theta_);
}

TEST_F(WeightsFileTest, RefusesAnotherModelsByTensorAndOneThatHasMore) {
  const absl::Status other = Refusal({{{"bias", {3}}, {"weight", {5, 2}}}});
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()), HasSubstr("tensor weight: got "));
  EXPECT_THAT(std::string(Refusal({{{"bias", {3}}}}).message()),
              HasSubstr("got tensor weight, wanted those of the model alone"));
}

// 2^64 - 8 - size is the beginning of the file itself.
TEST_F(WeightsFileTest, RefusesOffsetsThatWrapAround) {
  std::string header(128, ' ');
  const uint64_t begin = uint64_t{0} - 8 - header.size();
  const std::string text =
      absl::StrCat(R"({"bias": {"dtype": "F32", "shape": [3], "data_offsets": [)", begin, ", ",
                   begin + 12, "]}}");
  header.replace(0, text.size(), text);
  WriteHeader(header);
  EXPECT_THAT(std::string(Refusal({{{"bias", {3}}}}).message()), HasSubstr("tensor bias: got "));
}

TEST_F(WeightsFileTest, RefusesWhatIsNoSuchFile) {
  EXPECT_EQ(ReadWeights(folder_.path() + "/nowhere", manifest_, layout_).status().code(),
            absl::StatusCode::kNotFound);
  for (const std::string content :
       {"", "short", "12345678{not json", "\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
    EXPECT_EQ(Refusal(manifest_).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(WeightsFileTest, RefusesAHeaderThatIsNestedBeyondAnyStack) {
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  for (const std::string& tensor : {deep, "{\"dtype\": \"F32\", \"shape\": " + deep + "}"}) {
    WriteHeader("{\"bias\": " + tensor + "}");
    EXPECT_THAT(std::string(Refusal(manifest_).message()), HasSubstr("tensor bias: got "));
  }
}

TEST_F(WeightsFileTest, RefusesAFileThatEndsEarly) {
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 4);
  EXPECT_THAT(std::string(Refusal(manifest_).message()),
              HasSubstr("ends before tensor weight does"));
}

}  // namespace
}  // namespace longwave
