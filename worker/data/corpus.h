#ifndef LONGWAVE_WORKER_DATA_CORPUS_H_
#define LONGWAVE_WORKER_DATA_CORPUS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "worker/data/batch.h"

namespace longwave {

// Limit for text, which is loaded into memory whole.
inline constexpr uint64_t kCorpusBytesMax = uint64_t{1} << 30;

// Contiguous tokens in memory: little-endian numbers of `width` bytes.
struct TokenPiece {
  std::string path;                   // for errors
  std::shared_ptr<const void> owner;  // of the bytes
  const std::byte* bytes = nullptr;
  uint64_t count = 0;
  uint32_t width = 1;
  uint64_t begin = 0;  // the first token's index in the corpus
};

// A worker's data: tokens end to end, in windows of model.context. The first part is for training,
// the rest for validation. Batches depend on the arguments alone, so a worker's step has the same
// batch wherever and whenever it runs. InvalidArgument of a batch: a token is not below
// model.vocabulary; the message says where.
class Corpus final {
 public:
  // Loads text, whose bytes are the tokens, or maps files of tokens (token_files.h), by data.kind.
  // NotFound: no files. InvalidArgument: another kind of data, or too little in one part.
  // ResourceExhausted: more than kCorpusBytesMax to load. PermissionDenied, DataLoss: an unreadable
  // file.
  static absl::StatusOr<Corpus> Load(const DataSection& data, const ModelSection& model);

  // Makes a corpus of `text`; errors name it `source`.
  static absl::StatusOr<Corpus> FromText(std::string text, double validation_share,
                                         uint32_t context, const std::string& source);

  // `rows` windows of the training part, drawn with replacement.
  absl::StatusOr<Batch> TrainBatch(uint64_t seed, uint32_t worker, uint64_t step,
                                   uint32_t rows) const;
  // Batch `index` of `count`: windows spread evenly over the validation part, equal on all workers.
  absl::StatusOr<Batch> ValidationBatch(uint32_t index, uint32_t count, uint32_t rows) const;
  // Size of the training part, in words.
  std::string Size() const;

  uint64_t train_count() const { return train_count_; }
  // Tokens `begin` to `begin` + `count` − 1 over both parts.
  absl::StatusOr<std::vector<int64_t>> Tokens(uint64_t begin, uint64_t count) const;

 private:
  Corpus(std::vector<TokenPiece> pieces, uint64_t train_count, uint32_t context,
         uint32_t vocabulary);
  static absl::StatusOr<Corpus> FromPieces(std::vector<TokenPiece> train,
                                           std::vector<TokenPiece> validation,
                                           const DataSection& data, const ModelSection& model);
  absl::Status AppendWindow(uint64_t start, Batch* batch) const;

  std::vector<TokenPiece> pieces_;
  uint64_t count_ = 0;
  uint64_t train_count_;
  uint32_t context_, vocabulary_;
};

// Predicts the result of Corpus::Load from names, sizes and permissions, without reading text.
absl::Status CheckCorpus(const DataSection& data, const ModelSection& model);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_CORPUS_H_
