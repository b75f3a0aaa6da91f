#ifndef LONGWAVE_WORKER_DATA_DATASET_H_
#define LONGWAVE_WORKER_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "worker/data/batch.h"

namespace longwave {

// Separates the streams of batches from other streams of the same seed.
inline constexpr uint64_t kBatchStream = 0x6261746368;  // "batch"

// A worker's training and validation data. Batches depend on the arguments alone, so a worker's
// step has the same batch wherever and whenever it runs. InvalidArgument: an example does not fit
// the model; the message says which.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // `rows` examples of the training part, drawn with replacement.
  virtual absl::StatusOr<Batch> TrainBatch(uint64_t seed, uint32_t worker, uint64_t step,
                                           uint32_t rows) const = 0;
  // Batch `index` of `count`: examples spread evenly over the validation part, equal on all
  // workers.
  virtual absl::StatusOr<Batch> ValidationBatch(uint32_t index, uint32_t count,
                                                uint32_t rows) const = 0;
  // Size of the training part, in words.
  virtual std::string Size() const = 0;
};

// Reads or maps data.path by data.kind. NotFound: no files. InvalidArgument: another kind of data,
// or too little in one part. ResourceExhausted: more than kCorpusBytesMax to load.
// PermissionDenied, DataLoss: an unreadable file.
absl::StatusOr<std::unique_ptr<Dataset>> LoadDataset(const DataSection& data,
                                                     const ModelSection& model);

// Predicts the result of LoadDataset from names, sizes and permissions.
absl::Status CheckDataset(const DataSection& data, const ModelSection& model);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_DATASET_H_
