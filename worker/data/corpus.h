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
#include "worker/data/dataset.h"

namespace longwave {

// Limit for text and images, which are loaded into memory whole.
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

// Tokens end to end, in windows of model.context. The first part is for training, the rest for
// validation.
class Corpus final : public Dataset {
 public:
  // Loads text, whose bytes are the tokens, or maps files of tokens (token_files.h), by data.kind.
  static absl::StatusOr<Corpus> Load(const DataSection& data, const ModelSection& model);

  // Makes a corpus of `text`; errors name it `source`.
  static absl::StatusOr<Corpus> FromText(std::string text, double validation_share,
                                         uint32_t context, const std::string& source);

  absl::StatusOr<Batch> TrainBatch(uint64_t seed, uint32_t worker, uint64_t step,
                                   uint32_t rows) const override;
  absl::StatusOr<Batch> ValidationBatch(uint32_t index, uint32_t count,
                                        uint32_t rows) const override;
  std::string Size() const override;

  uint64_t train_count() const { return train_count_; }
  // Tokens `begin` to `begin` + `count` − 1 over both parts. InvalidArgument: a token is not below
  // model.vocabulary; the message says where.
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
