#ifndef LONGWAVE_WORKER_DATA_IMAGES_H_
#define LONGWAVE_WORKER_DATA_IMAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "worker/data/dataset.h"

namespace longwave {

// Images with labels: [model.channels, model.image_size, model.image_size], labels below
// model.classes. Formats are IDX (MNIST's) and the binary records of CIFAR-10 and CIFAR-100 (the
// fine label), plain or gzip. The labels file of an IDX images file is beside it, with "labels" for
// "images" and "idx1" for "idx3" in its name. Pixels become −1 to 1. Training images are shifted by
// up to data.crop pixels, with zeros at the border, and data.flip mirrors half of them.
//   source: yann.lecun.com/exdb/mnist, www.cs.toronto.edu/~kriz/cifar.html
class Images final : public Dataset {
 public:
  // Errors of files as DataFiles. InvalidArgument: another format, sizes other than the model's, or
  // a label without a class; the message names file and image. ResourceExhausted: more than
  // kCorpusBytesMax.
  static absl::StatusOr<Images> Load(const DataSection& data, const ModelSection& model);

  absl::StatusOr<Batch> TrainBatch(uint64_t seed, uint32_t worker, uint64_t step,
                                   uint32_t rows) const override;
  absl::StatusOr<Batch> ValidationBatch(uint32_t index, uint32_t count,
                                        uint32_t rows) const override;
  std::string Size() const override;

 private:
  struct Place {
    int64_t down = 0, right = 0;
    bool flipped = false;
  };
  Images(const DataSection& data, const ModelSection& model);
  absl::Status ReadAll(const std::string& path);
  absl::Status ReadIdx(const std::string& path, const std::string& bytes);
  absl::Status ReadCifar(const std::string& path, const std::string& bytes);
  absl::Status Add(const std::string& path, uint8_t label, const char* pixels);
  void Append(uint64_t image, const Place& place, Batch* batch) const;
  Batch EmptyBatch(uint32_t rows) const;

  uint32_t channels_, size_, classes_, crop_;
  bool flip_;
  std::string pixels_;  // image after image
  std::vector<uint8_t> labels_;
  uint64_t train_count_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_IMAGES_H_
