#include "worker/weights/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

class SafetensorsTest : public testing::Test {
 protected:
  const TestFolder temporary_;
  const fs::path folder_ = temporary_.path();
  // A vector before a matrix: in the flat array the matrix comes first, in the file it does not.
  const Manifest manifest_ = {{{"bias", {3}}, {"weight", {2, 2}}}};
  const Layout layout_ = *Layout::Create(manifest_, LayoutOptions{});
  const std::vector<float> theta_ = {1, 2, 3, 4, 10, 20, 30};
};

TEST_F(SafetensorsTest, HeaderAndBytesAreExact) {
  const fs::path path = folder_ / "model.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, manifest_, layout_, theta_.data(), {{"format", "pt"}}).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  uint64_t header_size = 0;
  ASSERT_GE(bytes.size(), sizeof(header_size));
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  EXPECT_EQ(header_size % 8, 0u);
  ASSERT_EQ(bytes.size(), 8 + header_size + 7 * sizeof(float));
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, header_size));
  EXPECT_EQ(header, nlohmann::json::parse(R"({
    "__metadata__": {"format": "pt"},
    "bias": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
    "weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [12, 28]}})"));
  std::vector<float> data(7);
  std::memcpy(data.data(), bytes.data() + 8 + header_size, 7 * sizeof(float));
  EXPECT_EQ(data, (std::vector<float>{10, 20, 30, 1, 2, 3, 4}));
}

TEST_F(SafetensorsTest, NamesAFolderThatIsMissing) {
  const absl::Status status =
      WriteSafetensors(folder_ / "none" / "m.safetensors", manifest_, layout_, theta_.data(), {});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("none/m.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace longwave
