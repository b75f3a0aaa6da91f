
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
    auto layout = Layout::Create(manifest_, {});
    EXPECT_TRUE(layout.ok()) << layout.status();
    layout_.emplace(*std::move(layout));
    theta_.resize(layout_->parameter_count());
    std::iota(theta_.begin(), theta_.end(), 0.5f);
    EXPECT_TRUE(WriteSafetensors(path_, manifest_, *layout_, theta_.data(), {}).ok());
  }

  const TestFolder folder_;
  const std::string path_ = folder_.path() + "/weights.safetensors";
  // The vector comes first and lies last: the layout has matrices first.
  const Manifest manifest_{{{"bias", {3}}, {"weight", {2, 5}}}};
  std::optional<Layout> layout_;
  std::vector<float> theta_;
};

TEST_F(WeightsFileTest, GivesWhatAWorkerWroteInTheLayoutsOrder) {
  const auto read = ReadWeights(path_, manifest_, *layout_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, theta_);
}

TEST_F(WeightsFileTest, RefusesAnotherModelsByTensor) {
  const Manifest other{{{"bias", {3}}, {"weight", {5, 2}}}};
  const auto layout = Layout::Create(other, {});
  ASSERT_TRUE(layout.ok());
  const auto read = ReadWeights(path_, other, *layout);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("tensor weight: got "));
}

TEST_F(WeightsFileTest, RefusesAModelThatHasMore) {
  const Manifest fewer{{{"bias", {3}}}};
  const auto layout = Layout::Create(fewer, {});
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(std::string(ReadWeights(path_, fewer, *layout).status().message()),
              HasSubstr("got 2 tensors, wanted the 1 of the model"));
}

// 2^64 - 8 - size is the beginning of the file itself.
TEST_F(WeightsFileTest, RefusesOffsetsThatWrapAround) {
  const Manifest one{{{"bias", {3}}}};
  const auto layout = Layout::Create(one, {});
  ASSERT_TRUE(layout.ok());
  std::string header(128, ' ');
  const uint64_t begin = uint64_t{0} - 8 - header.size();
  const std::string text =
      absl::StrCat(R"({"bias": {"dtype": "F32", "shape": [3], "data_offsets": [)", begin, ", ",
                   begin + 12, "]}}");
  header.replace(0, text.size(), text);
  const uint64_t size = header.size();
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&size), sizeof(size)) << header;
  file.close();
  EXPECT_THAT(std::string(ReadWeights(path_, one, *layout).status().message()),
              HasSubstr("tensor bias: got "));
}

TEST_F(WeightsFileTest, RefusesWhatIsNoSuchFile) {
  EXPECT_EQ(ReadWeights(folder_.path() + "/nowhere", manifest_, *layout_).status().code(),
            absl::StatusCode::kNotFound);
  for (const std::string content :
       {"", "short", "12345678{not json", "\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
    EXPECT_EQ(ReadWeights(path_, manifest_, *layout_).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(WeightsFileTest, RefusesAHeaderThatIsNestedBeyondAnyStack) {
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  for (const std::string& tensor : {deep, "{\"dtype\": \"F32\", \"shape\": " + deep + "}"}) {
    const std::string header = "{\"bias\": " + tensor + "}";
    const uint64_t size = header.size();
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&size), sizeof(size)) << header;
    file.close();
    EXPECT_THAT(std::string(ReadWeights(path_, manifest_, *layout_).status().message()),
                HasSubstr("tensor bias: got "));
  }
}

TEST_F(WeightsFileTest, RefusesAFileThatEndsEarly) {
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 4);
  EXPECT_THAT(std::string(ReadWeights(path_, manifest_, *layout_).status().message()),
              HasSubstr("ends before tensor weight does"));
}

}  // namespace
}  // namespace longwave
