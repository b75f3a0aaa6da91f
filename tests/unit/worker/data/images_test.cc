#include "worker/data/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"
#include "worker/data/corpus.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImageFiles : public testing::Test {
 protected:
  void SetUp() override {
    data_ = {.kind = "images", .path = folder_, .validation_share = 0.25};
    model_ = {.kind = "resnet", .channels = 1, .image_size = 2, .classes = 10};
  }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  void WriteGz(const std::string& name, const std::string& bytes) {
    gzFile file = gzopen((folder_ + "/" + name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  }
  static std::string Idx(const std::vector<uint8_t>& sizes, const std::string& bytes) {
    std::string head = {0, 0, 8, static_cast<char>(sizes.size())};
    for (const uint8_t size : sizes) head += std::string(3, '\0') + static_cast<char>(size);
    return head + bytes;
  }
  // Image i has the label i and the pixels 10·i to 10·i + 3.
  static std::string Pixels(int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < 4; ++j) bytes.push_back(static_cast<char>(10 * i + j));
    return bytes;
  }
  static std::string Labels(int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i));
    return bytes;
  }
  static std::vector<int> Bytes(const Batch& batch) {
    std::vector<int> bytes;
    for (const float pixel : batch.pixels)
      bytes.push_back(static_cast<int>((pixel + 1) * 127.5f + 0.5f));
    return bytes;
  }
  std::string LoadError() const {
    return std::string(Images::Load(data_, model_).status().message());
  }

  const TestFolder temporary_;
  const std::string folder_ = temporary_.path();
  DataSection data_;
  ModelSection model_;
};

TEST_F(ImageFiles, OfIdxAreReadPlainOrGzip) {
  for (const bool gzip : {false, true}) {
    const std::string images = Idx({8, 2, 2}, Pixels(8)), labels = Idx({8}, Labels(8));
    if (gzip) std::filesystem::remove(folder_ + "/images-idx3-ubyte");
    gzip ? WriteGz("images-idx3-ubyte.gz", images) : Write("images-idx3-ubyte", images);
    gzip ? WriteGz("labels-idx1-ubyte.gz", labels) : Write("labels-idx1-ubyte", labels);
    const auto data = LoadDataset(data_, model_);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ((*data)->Size(), "6 images");
    const Batch held_out = *(*data)->ValidationBatch(0, 1, 2);
    EXPECT_THAT(held_out.targets, ElementsAre(6, 7));
    EXPECT_THAT(Bytes(held_out), ElementsAre(60, 61, 62, 63, 70, 71, 72, 73));
  }
}

TEST_F(ImageFiles, BatchesFollowSeedWorkerAndStepAlone) {
  Write("images-idx3-ubyte", Idx({8, 2, 2}, Pixels(8)));
  Write("labels-idx1-ubyte", Idx({8}, Labels(8)));
  data_.crop = 1;
  data_.flip = true;
  const Images images = *Images::Load(data_, model_);
  EXPECT_EQ(*images.TrainBatch(1, 2, 3, 8), *Images::Load(data_, model_)->TrainBatch(1, 2, 3, 8));
  EXPECT_NE(*images.TrainBatch(1, 2, 3, 8), *images.TrainBatch(1, 2, 4, 8));
  EXPECT_NE(*images.TrainBatch(1, 2, 3, 8), *images.TrainBatch(1, 1, 3, 8));
}

TEST_F(ImageFiles, AreShiftedAndFlippedForTrainingAlone) {
  Write("images-idx3-ubyte", Idx({2, 2, 2}, Pixels(1) + Pixels(1)));
  Write("labels-idx1-ubyte", Idx({2}, Labels(2)));
  data_.validation_share = 0.5;
  const auto seen = [&] {
    std::set<std::vector<int>> images;
    for (uint64_t step = 0; step < 200; ++step)
      images.insert(Bytes(*Images::Load(data_, model_)->TrainBatch(1, 0, step, 1)));
    return images;
  };
  EXPECT_THAT(seen(), ElementsAre(std::vector<int>{0, 1, 2, 3}));
  data_.flip = true;
  EXPECT_THAT(seen(), ElementsAre(std::vector<int>{0, 1, 2, 3}, std::vector<int>{1, 0, 3, 2}));
  data_.flip = false;
  data_.crop = 1;
  const auto shifted = seen();
  EXPECT_EQ(shifted.size(), 9u);
  EXPECT_TRUE(shifted.contains({0, 0, 0, 1}));  // down
  EXPECT_TRUE(shifted.contains({1, 0, 3, 0}));  // left
  EXPECT_THAT(Bytes(*Images::Load(data_, model_)->ValidationBatch(0, 1, 1)),
              ElementsAre(0, 1, 2, 3));
}

TEST_F(ImageFiles, OfCifarHaveTheirLabelBefore) {
  model_ = {.kind = "resnet", .channels = 3, .image_size = 32, .classes = 100};
  const std::string pixels(3072, '\x7f');
  Write("data_batch_1.bin", "\x03" + pixels + "\x04" + pixels);
  Write("test_batch.bin", "\x05" + pixels);
  data_.path = folder_ + "/data_batch_*.bin";
  data_.validation_path = folder_ + "/test_batch.bin";
  const auto ten = Images::Load(data_, model_);
  ASSERT_TRUE(ten.ok()) << ten.status();
  EXPECT_EQ(ten->Size(), "2 images");
  EXPECT_THAT(ten->ValidationBatch(0, 1, 1)->targets, ElementsAre(5));
  Write("train.bin", "\x01\x43" + pixels);
  data_.path = data_.validation_path = folder_ + "/train.bin";
  const auto hundred = Images::Load(data_, model_);
  ASSERT_TRUE(hundred.ok()) << hundred.status();
  EXPECT_THAT(hundred->ValidationBatch(0, 1, 1)->targets, ElementsAre(0x43));
}

// A file that a download has cut short.
TEST_F(ImageFiles, OfGzipAreWhole) {
  model_ = {.kind = "resnet", .channels = 3, .image_size = 32, .classes = 10};
  std::string records;
  for (int i = 0; i < 4; ++i) records += "\x03" + std::string(3072, static_cast<char>(i));
  WriteGz("batch.bin.gz", records);
  data_.path = folder_ + "/batch.bin.gz";
  ASSERT_TRUE(Images::Load(data_, model_).ok());
  std::filesystem::resize_file(data_.path, std::filesystem::file_size(data_.path) - 8);
  EXPECT_THAT(LoadError(), HasSubstr("batch.bin.gz: "));
}

TEST_F(ImageFiles, ThatFitBothKindsOfCifarAreRefused) {
  model_ = {.kind = "resnet", .channels = 3, .image_size = 32, .classes = 100};
  Write("train.bin", std::string(3073 * 3074, '\0'));
  data_.path = folder_ + "/train.bin";
  EXPECT_THAT(LoadError(), HasSubstr("fit the records of CIFAR-10 and of CIFAR-100"));
}

TEST_F(ImageFiles, ThatAreTogetherMoreThanAWorkerHoldsAreRefused) {
  model_ = {.kind = "resnet", .channels = 3, .image_size = 32, .classes = 10};
  Write("batch_1.bin", "\x03" + std::string(3072, '\x7f'));
  Write("batch_2.bin", "");
  std::filesystem::resize_file(folder_ + "/batch_2.bin", kCorpusBytesMax);
  data_.path = folder_ + "/batch_*.bin";
  EXPECT_THAT(LoadError(),
              HasSubstr("more than 1 GiB of images up to " + folder_ + "/batch_2.bin"));
}

TEST_F(ImageFiles, AreRefusedByWhatIsWrongWithThem) {
  Write("images-idx3-ubyte", Idx({8, 2, 2}, Pixels(8)));
  EXPECT_THAT(LoadError(), HasSubstr("labels-idx1-ubyte: No such file"));
  Write("labels-idx1-ubyte", Idx({7}, Labels(7)));
  EXPECT_THAT(LoadError(), HasSubstr("labels-idx1-ubyte: got no IDX file of 8 labels, wanted it"));
  Write("labels-idx1-ubyte", Idx({8}, Labels(8)));
  model_.classes = 5;
  EXPECT_THAT(LoadError(),
              HasSubstr("image 5 has the label 5, wanted one below model.classes (5)"));
  model_.image_size = 28;
  EXPECT_THAT(LoadError(),
              HasSubstr("got images of 1 x 2 x 2, wanted 1 x 28 x 28 (model.channels"));
  model_.image_size = 2;
  Write("images-idx3-ubyte", Idx({8, 2, 2}, Pixels(7)));
  EXPECT_THAT(LoadError(), HasSubstr("got 28 bytes of pixels, wanted those of the 8 images"));
  Write("images-idx3-ubyte", "text");
  EXPECT_THAT(LoadError(), HasSubstr("got 4 bytes without IDX's head, wanted IDX or CIFAR's"));
}

}  // namespace
}  // namespace longwave
