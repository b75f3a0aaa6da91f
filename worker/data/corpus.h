#ifndef LONGWAVE_WORKER_DATA_CORPUS_H_
#define LONGWAVE_WORKER_DATA_CORPUS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "worker/data/batch.h"

namespace longwave {

// A corpus is held in memory whole.
inline constexpr uint64_t kCorpusBytesMax = uint64_t{1} << 30;

// The value of data.path that stands for the C++ headers of this machine's own compiler.
inline constexpr char kCompilerHeaders[] = "compiler-headers";

// Text as bytes, one token each: the first part is trained on, the rest is held out.
class Corpus {
 public:
  // Reads data.path: a file; a folder, of which all regular files are read in the order of their
  // paths; or kCompilerHeaders, the newest folder under /usr/include/c++. `context`: the longest
  // sequence that batches will have.
  // NotFound: nothing there. InvalidArgument: no bytes, or too few for a sequence in one of the
  // parts. ResourceExhausted: more than kCorpusBytesMax. PermissionDenied, DataLoss: a file that
  // can't be read.
  static absl::StatusOr<Corpus> Load(const DataSection& data, uint32_t context);

  // As Load, of a text at hand; `source` names it in errors.
  static absl::StatusOr<Corpus> FromText(std::string text, double validation_share,
                                         uint32_t context, const std::string& source);

  std::string_view train() const { return std::string_view(text_).substr(0, train_size_bytes_); }
  std::string_view validation() const { return std::string_view(text_).substr(train_size_bytes_); }

  // `rows` windows of the training part, drawn from the arguments alone: a step of a worker has the
  // same batch whenever and wherever it is taken.
  Batch TrainBatch(uint64_t seed, uint32_t worker, uint64_t step, uint32_t rows,
                   uint32_t length) const;

  // Batch `index` of `count`: windows spread evenly over the validation part, the same for
  // everyone.
  Batch ValidationBatch(uint32_t index, uint32_t count, uint32_t rows, uint32_t length) const;

 private:
  Corpus(std::string text, size_t train_size_bytes)
      : text_(std::move(text)), train_size_bytes_(train_size_bytes) {}

  std::string text_;
  size_t train_size_bytes_;
};

// Whether Load would succeed, as far as names, sizes and permissions tell: nothing is read.
absl::Status CheckCorpus(const DataSection& data, uint32_t context);

// The files that data.path stands for, in reading order. InvalidArgument: an empty path, a device,
// a pipe.
absl::StatusOr<std::vector<std::string>> CorpusFiles(const std::string& path);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_CORPUS_H_
