#ifndef LONGWAVE_WORKER_DATA_CORPUS_H_
#define LONGWAVE_WORKER_DATA_CORPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "worker/data/batch.h"
#include "worker/data/token_piece.h"

namespace longwave {

// The description of data for a person, before they are trained on.
struct DataReport {
  std::vector<std::string> lines;  // files, amounts, the beginning; held out; left out
  uint64_t hash = 0;               // of all tokens in order
};

// A worker's data: tokens end to end, in windows of model.context. The first part is for training,
// the rest for validation. Batches depend on the arguments alone, so a worker's step has the same
// batch wherever and whenever it runs.
class Corpus final {
 public:
  // Loads text or other bytes, which are the tokens (text_files.h), or maps files of tokens
  // (token_files.h), by data.kind, and looks at all of them once. NotFound: no files.
  // InvalidArgument: another form of data, too little in one part, or a token that is not below
  // model.vocabulary; the message says where. ResourceExhausted: more than kCorpusBytesMax to load.
  // PermissionDenied, DataLoss: an unreadable file.
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
  const DataReport& report() const { return report_; }
  // Tokens `begin` to `begin` + `count` − 1 over both parts. InvalidArgument: a file has changed
  // since it was mapped.
  absl::StatusOr<std::vector<int64_t>> Tokens(uint64_t begin, uint64_t count) const;

 private:
  // The files of a corpus as they are read.
  struct Parts {
    std::vector<TokenPiece> train, validation;
    bool is_apart = false;  // the validation part has files of its own
    std::vector<std::string> left_out;
  };

  Corpus(std::vector<TokenPiece> pieces, uint64_t train_count, uint32_t context,
         uint32_t vocabulary);
  static absl::StatusOr<Corpus> FromParts(Parts parts, const DataSection& data,
                                          const ModelSection& model);
  absl::Status OutOfVocabulary(const TokenPiece& piece, uint64_t index, uint32_t token) const;
  // The pass over all tokens: checks them, and adds hash and lines to the report.
  absl::Status LookThrough(const DataSection& data, const Parts& parts);
  absl::Status AppendWindow(uint64_t start, Batch* batch) const;

  std::vector<TokenPiece> pieces_;
  uint64_t count_ = 0;
  uint64_t train_count_;
  uint32_t context_, vocabulary_;
  DataReport report_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_CORPUS_H_
