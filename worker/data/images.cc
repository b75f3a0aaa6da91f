#include "worker/data/images.h"

#include <zlib.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "worker/data/corpus.h"
#include "worker/data/data_files.h"

namespace longwave {
namespace {

constexpr uint32_t kIdxLabels = 0x801, kIdxImages = 0x803;  // bytes, of one and three dimensions
constexpr size_t kIdxLabelsHead = 8, kIdxImagesHead = 16;
constexpr size_t kCifarPixels = 3 * 32 * 32;

absl::Status Unfit(const std::string& path, const std::string& what) {
  return InvalidArgument("data: ", path, ": ", what);
}

absl::Status TooLarge(const std::string& path) {
  return ResourceExhausted("data: more than ", kCorpusBytesMax >> 30, " GiB of images up to ", path,
                           ", which a worker holds in memory");
}

// Reads a whole file, plain or gzip; zlib detects which. `held` bytes are in memory already.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t held) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose_r);
  if (file == nullptr) return FileError(path, std::error_code(errno, std::generic_category()));
  std::error_code unknown;
  if (const uintmax_t size = std::filesystem::file_size(path, unknown);
      !unknown && size > kCorpusBytesMax - held)
    return TooLarge(path);
  std::string bytes;
  constexpr size_t kChunk = 1 << 20;
  while (true) {
    const size_t begin = bytes.size();
    bytes.resize(begin + kChunk);
    const int got = gzread(file.get(), bytes.data() + begin, kChunk);
    bytes.resize(begin + (got > 0 ? static_cast<size_t>(got) : 0));
    // A compressed file that ends early reads like one that has ended.
    int code = Z_OK;
    const char* const why = gzerror(file.get(), &code);
    if (got < 0 || (got == 0 && code == Z_BUF_ERROR)) return DataLoss("data: ", path, ": ", why);
    if (got == 0) return bytes;
    if (held + bytes.size() > kCorpusBytesMax) return TooLarge(path);
  }
}

// The 32-bit number `index` of an IDX file's head; 0 if the file is shorter.
uint32_t HeadNumber(const std::string& bytes, size_t index) {
  if (bytes.size() < 4 * index + 4) return 0;
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[4 * index + i]);
  return number;
}

}  // namespace

Images::Images(const DataSection& data, const ModelSection& model)
    : channels_(model.channels),
      size_(model.image_size),
      classes_(model.classes),
      crop_(data.crop),
      flip_(data.flip) {}

absl::StatusOr<Images> Images::Load(const DataSection& data, const ModelSection& model) {
  Images images(data, model);
  LONGWAVE_RETURN_IF_ERROR(images.ReadAll(data.path));
  const uint64_t count = images.labels_.size();
  images.train_count_ = count;
  if (data.validation_path.empty()) {
    images.train_count_ =
        static_cast<uint64_t>(std::floor(static_cast<double>(count) * (1 - data.validation_share)));
  } else {
    LONGWAVE_RETURN_IF_ERROR(images.ReadAll(data.validation_path));
  }
  const uint64_t held_out = images.labels_.size() - images.train_count_;
  if (images.train_count_ > 0 && held_out > 0) return images;
  return InvalidArgument("data: ", data.path, ": got ", images.train_count_,
                         " images to train on and ", held_out,
                         " to validate with, wanted at least one of each");
}

absl::Status Images::ReadAll(const std::string& path) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> files, DataFiles(path));
  for (const std::string& file : files) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, pixels_.size()));
    const uint32_t magic = HeadNumber(bytes, 0);
    if (magic == kIdxLabels) continue;  // read together with the images
    LONGWAVE_RETURN_IF_ERROR(magic == kIdxImages ? ReadIdx(file, bytes) : ReadCifar(file, bytes));
  }
  return absl::OkStatus();
}

absl::Status Images::ReadIdx(const std::string& path, const std::string& bytes) {
  const uint64_t count = HeadNumber(bytes, 1), rows = HeadNumber(bytes, 2);
  const uint64_t columns = HeadNumber(bytes, 3);
  if (channels_ != 1 || rows != size_ || columns != size_) {
    return Unfit(path,
                 absl::StrCat("got images of 1 x ", rows, " x ", columns, ", wanted ", channels_,
                              " x ", size_, " x ", size_, " (model.channels, model.image_size)"));
  }
  if (bytes.size() - kIdxImagesHead != count * rows * columns) {
    return Unfit(path, absl::StrCat("got ", bytes.size() - kIdxImagesHead,
                                    " bytes of pixels, wanted those of the ", count,
                                    " images that it tells of"));
  }
  const std::filesystem::path name(path);
  const std::string labels_path =
      (name.parent_path() /
       absl::StrReplaceAll(name.filename().string(), {{"images", "labels"}, {"idx3", "idx1"}}))
          .string();
  LONGWAVE_ASSIGN_OR_RETURN(const std::string labels, ReadFile(labels_path, pixels_.size()));
  if (HeadNumber(labels, 0) != kIdxLabels || labels.size() != kIdxLabelsHead + count) {
    return Unfit(labels_path,
                 absl::StrCat("got no IDX file of ", count, " labels, wanted it for ", path));
  }
  for (uint64_t i = 0; i < count; ++i) {
    LONGWAVE_RETURN_IF_ERROR(Add(labels_path, static_cast<uint8_t>(labels[kIdxLabelsHead + i]),
                                 bytes.data() + kIdxImagesHead + i * rows * columns));
  }
  return absl::OkStatus();
}

absl::Status Images::ReadCifar(const std::string& path, const std::string& bytes) {
  if (bytes.size() % (kCifarPixels + 1) == 0 && bytes.size() % (kCifarPixels + 2) == 0 &&
      !bytes.empty()) {
    return Unfit(path, absl::StrCat("got ", bytes.size(),
                                    " bytes, which fit the records of CIFAR-10 and of CIFAR-100; "
                                    "wanted files that fit one of them"));
  }
  // CIFAR-100's records have a coarse label before the fine one.
  const size_t labels = bytes.size() % (kCifarPixels + 1) == 0 ? 1 : 2;
  const size_t record = kCifarPixels + labels;
  if (bytes.empty() || bytes.size() % record != 0) {
    return Unfit(path, absl::StrCat("got ", bytes.size(),
                                    " bytes without IDX's head, wanted IDX or CIFAR's records of ",
                                    kCifarPixels + 1, " or ", kCifarPixels + 2, " bytes"));
  }
  if (channels_ != 3 || size_ != 32) {
    return Unfit(path, absl::StrCat("got images of 3 x 32 x 32, wanted ", channels_, " x ", size_,
                                    " x ", size_, " (model.channels, model.image_size)"));
  }
  for (size_t at = 0; at < bytes.size(); at += record) {
    LONGWAVE_RETURN_IF_ERROR(
        Add(path, static_cast<uint8_t>(bytes[at + labels - 1]), bytes.data() + at + labels));
  }
  return absl::OkStatus();
}

absl::Status Images::Add(const std::string& path, uint8_t label, const char* pixels) {
  if (label >= classes_) {
    return Unfit(path, absl::StrCat("image ", labels_.size(), " has the label ", label,
                                    ", wanted one below model.classes (", classes_, ")"));
  }
  labels_.push_back(label);
  pixels_.append(pixels, size_t{channels_} * size_ * size_);
  return absl::OkStatus();
}

Batch Images::EmptyBatch(uint32_t rows) const {
  Batch batch{.rows = rows};
  batch.pixels.reserve(size_t{rows} * channels_ * size_ * size_);
  return batch;
}

void Images::Append(uint64_t image, const Place& place, Batch* batch) const {
  const int64_t size = size_;
  for (uint32_t channel = 0; channel < channels_; ++channel) {
    const char* const plane = pixels_.data() + (image * channels_ + channel) * size * size;
    for (int64_t y = 0; y < size; ++y) {
      for (int64_t x = 0; x < size; ++x) {
        const int64_t from_y = y - place.down;
        const int64_t from_x = (place.flipped ? size - 1 - x : x) - place.right;
        const bool inside = from_y >= 0 && from_y < size && from_x >= 0 && from_x < size;
        const uint8_t value = inside ? static_cast<uint8_t>(plane[from_y * size + from_x]) : 0;
        batch->pixels.push_back(static_cast<float>(value) / 127.5f - 1);
      }
    }
  }
  batch->targets.push_back(labels_[image]);
}

absl::StatusOr<Batch> Images::TrainBatch(uint64_t seed, uint32_t worker, uint64_t step,
                                         uint32_t rows) const {
  Rng rng(Mix64(seed ^ kBatchStream) + worker, step);
  Batch batch = EmptyBatch(rows);
  const auto shift = [&] {
    return static_cast<int64_t>(rng.Below(2 * uint64_t{crop_} + 1)) - static_cast<int64_t>(crop_);
  };
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t image = rng.Below(train_count_);
    Place place;
    place.down = shift();
    place.right = shift();
    place.flipped = flip_ && rng.Below(2) == 1;
    Append(image, place, &batch);
  }
  return batch;
}

absl::StatusOr<Batch> Images::ValidationBatch(uint32_t index, uint32_t count, uint32_t rows) const {
  LONGWAVE_CHECK(index < count);
  const uint64_t held_out = labels_.size() - train_count_;
  const uint64_t wanted = uint64_t{count} * rows;
  Batch batch = EmptyBatch(rows);
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t at = uint64_t{index} * rows + row;
    Append(train_count_ + at * held_out / wanted, {}, &batch);
  }
  return batch;
}

std::string Images::Size() const { return absl::StrCat(train_count_, " images"); }

}  // namespace longwave
