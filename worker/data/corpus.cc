#include "worker/data/corpus.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "worker/data/data_files.h"
#include "worker/data/token_files.h"

namespace longwave {
namespace {

// Separates the streams of batches from other streams of the same seed.
constexpr uint64_t kBatchStream = 0x6261746368;  // "batch"

// An opened file of the corpus.
struct OpenFile {
  std::ifstream stream;
  uint64_t size = 0;
};

absl::StatusOr<OpenFile> Open(const std::string& path, uint64_t size_before) {
  std::error_code error;
  OpenFile file{.size = std::filesystem::file_size(path, error)};
  if (error) return FileError(path, error);
  if (file.size > kCorpusBytesMax || size_before > kCorpusBytesMax - file.size) {
    return ResourceExhausted(
        "data: more than ", kCorpusBytesMax >> 30, " GiB of text up to ", path,
        "; wanted at most that, which a worker holds in memory: name a smaller file or "
        "folder, another one on each worker if you like");
  }
  errno = 0;
  file.stream.open(path, std::ios::binary);
  if (!file.stream) return FileError(path, std::error_code(errno, std::generic_category()));
  return file;
}

absl::Status AppendFile(const std::string& path, std::string* text) {
  LONGWAVE_ASSIGN_OR_RETURN(OpenFile file, Open(path, text->size()));
  const size_t begin = text->size();
  text->resize(begin + file.size);
  file.stream.read(text->data() + begin, static_cast<std::streamsize>(file.size));
  if (static_cast<uint64_t>(file.stream.gcount()) != file.size) {
    return DataLoss("data: ", path, ": read ", file.stream.gcount(), " bytes, wanted ", file.size);
  }
  return absl::OkStatus();
}

TokenPiece PieceOf(std::string text, const std::string& path) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return {.path = path,
          .owner = owner,
          .bytes = reinterpret_cast<const std::byte*>(owner->data()),
          .count = owner->size()};
}

// The tokens of a path, by data.kind. If reads_text is false, text pieces have a size and no bytes.
absl::StatusOr<std::vector<TokenPiece>> Pieces(const DataSection& data, const std::string& path,
                                               bool reads_text) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> files, DataFiles(path));
  std::vector<TokenPiece> pieces;
  if (data.kind == "tokens") {
    for (const std::string& file : files) {
      // The tokenizer that `longwave.make_tokens` writes beside them may have the size of some.
      if (file.ends_with(".json")) {
        return InvalidArgument("data: got ", file, ", wanted files of tokens: a pattern such as '",
                               std::filesystem::path(file).parent_path().string(), "/*.bin'");
      }
      LONGWAVE_ASSIGN_OR_RETURN(TokenPiece piece,
                                MapTokens(file, data.token_type == "uint32" ? 4 : 2));
      pieces.push_back(std::move(piece));
    }
    return pieces;
  }
  std::string text;
  uint64_t size = 0;
  for (const std::string& file : files) {
    if (reads_text) LONGWAVE_RETURN_IF_ERROR(AppendFile(file, &text));
    if (reads_text) continue;
    LONGWAVE_ASSIGN_OR_RETURN(const OpenFile open, Open(file, size));
    size += open.size;
  }
  pieces.push_back(reads_text ? PieceOf(std::move(text), path)
                              : TokenPiece{.path = path, .count = size});
  return pieces;
}

uint64_t CountOf(const std::vector<TokenPiece>& pieces) {
  uint64_t count = 0;
  for (const TokenPiece& piece : pieces) count += piece.count;
  return count;
}

const char* UnitOf(const DataSection& data) { return data.kind == "tokens" ? "tokens" : "bytes"; }

// Number of training tokens. Checks that both parts are long enough. validation: number of tokens
// in separate validation files.
absl::StatusOr<uint64_t> TrainCount(uint64_t count, uint64_t validation, const DataSection& data,
                                    uint32_t context) {
  const char* const unit = UnitOf(data);
  if (count == 0) {
    return InvalidArgument("data: ", data.path, " holds no ", unit, "; wanted ",
                           data.kind == "tokens" ? unit : "text");
  }
  uint64_t train = count;
  if (data.validation_path.empty()) {
    if (!(data.validation_share >= 0 && data.validation_share < 1)) {
      return InvalidArgument("data.validation_share is ", data.validation_share,
                             "; wanted 0 or more and below 1");
    }
    train =
        static_cast<uint64_t>(std::floor(static_cast<double>(count) * (1 - data.validation_share)));
    validation = count - train;
  }
  const uint64_t wanted = uint64_t{context} + 1;
  for (const auto& [part, part_count] :
       {std::pair<const char*, uint64_t>{"training", train}, {"validation", validation}}) {
    if (part_count >= wanted) continue;
    const bool own = part_count == validation && !data.validation_path.empty();
    return InvalidArgument("data: ", own ? data.validation_path : data.path, " leaves ", part_count,
                           " ", unit, " to the ", part, " part; wanted at least ", wanted,
                           " (model.context + 1)");
  }
  return train;
}

Batch EmptyBatch(uint32_t rows, uint32_t length) {
  Batch batch{.rows = rows, .length = length};
  batch.tokens.reserve(size_t{rows} * length);
  batch.targets.reserve(size_t{rows} * length);
  return batch;
}

}  // namespace

Corpus::Corpus(std::vector<TokenPiece> pieces, uint64_t train_count, uint32_t context,
               uint32_t vocabulary)
    : pieces_(std::move(pieces)),
      train_count_(train_count),
      context_(context),
      vocabulary_(vocabulary) {
  std::erase_if(pieces_, [](const TokenPiece& piece) { return piece.count == 0; });
  for (TokenPiece& piece : pieces_) {
    piece.begin = count_;
    count_ += piece.count;
  }
}

absl::StatusOr<Corpus> Corpus::FromPieces(std::vector<TokenPiece> train,
                                          std::vector<TokenPiece> validation,
                                          const DataSection& data, const ModelSection& model) {
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t train_count,
                            TrainCount(CountOf(train), CountOf(validation), data, model.context));
  for (TokenPiece& piece : validation) train.push_back(std::move(piece));
  return Corpus(std::move(train), train_count, model.context, model.vocabulary);
}

absl::StatusOr<Corpus> Corpus::Load(const DataSection& data, const ModelSection& model) {
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<TokenPiece> train, Pieces(data, data.path, true));
  std::vector<TokenPiece> validation;
  if (!data.validation_path.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(validation, Pieces(data, data.validation_path, true));
  }
  return FromPieces(std::move(train), std::move(validation), data, model);
}

absl::Status CheckCorpus(const DataSection& data, const ModelSection& model) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<TokenPiece> train, Pieces(data, data.path, false));
  std::vector<TokenPiece> validation;
  if (!data.validation_path.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(validation, Pieces(data, data.validation_path, false));
  }
  return TrainCount(CountOf(train), CountOf(validation), data, model.context).status();
}

absl::StatusOr<Corpus> Corpus::FromText(std::string text, double validation_share, uint32_t context,
                                        const std::string& source) {
  std::vector<TokenPiece> pieces = {PieceOf(std::move(text), source)};
  return FromPieces(std::move(pieces), {},
                    {.kind = "text", .path = source, .validation_share = validation_share},
                    {.context = context});
}

absl::StatusOr<std::vector<int64_t>> Corpus::Tokens(uint64_t begin, uint64_t count) const {
  LONGWAVE_CHECK(begin <= count_ && count <= count_ - begin);
  std::vector<int64_t> tokens;
  tokens.reserve(count);
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                [](uint64_t at, const TokenPiece& p) { return at < p.begin; });
  for (--piece; tokens.size() < count; ++piece) {
    const uint64_t first = begin + tokens.size() - piece->begin;
    const uint64_t end = std::min(piece->count, first + count - tokens.size());
    for (uint64_t i = first; i < end; ++i) {
      uint32_t token = 0;
      std::memcpy(&token, piece->bytes + i * piece->width, piece->width);
      if (token >= vocabulary_) {
        return InvalidArgument("data: ", piece->path, ": token ", i, " is ", token,
                               ", wanted one below model.vocabulary (", vocabulary_, ")");
      }
      tokens.push_back(token);
    }
  }
  return tokens;
}

absl::Status Corpus::AppendWindow(uint64_t start, Batch* batch) const {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<int64_t> window,
                            Tokens(start, uint64_t{context_} + 1));
  batch->tokens.insert(batch->tokens.end(), window.begin(), window.end() - 1);
  batch->targets.insert(batch->targets.end(), window.begin() + 1, window.end());
  return absl::OkStatus();
}

// A window and its targets may begin at any token of a part except the last `context`.
absl::StatusOr<Batch> Corpus::TrainBatch(uint64_t seed, uint32_t worker, uint64_t step,
                                         uint32_t rows) const {
  Rng rng(Mix64(seed ^ kBatchStream) + worker, step);
  Batch batch = EmptyBatch(rows, context_);
  for (uint32_t row = 0; row < rows; ++row) {
    LONGWAVE_RETURN_IF_ERROR(AppendWindow(rng.Below(train_count_ - context_), &batch));
  }
  return batch;
}

absl::StatusOr<Batch> Corpus::ValidationBatch(uint32_t index, uint32_t count, uint32_t rows) const {
  LONGWAVE_CHECK(index < count);
  const uint64_t starts = count_ - train_count_ - context_;
  const uint64_t windows = uint64_t{count} * rows;
  Batch batch = EmptyBatch(rows, context_);
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t window = uint64_t{index} * rows + row;
    LONGWAVE_RETURN_IF_ERROR(AppendWindow(train_count_ + window * starts / windows, &batch));
  }
  return batch;
}

std::string Corpus::Size() const {
  const bool is_text = pieces_.front().width == 1;
  return absl::StrCat(train_count_, is_text ? " bytes of text" : " tokens");
}

}  // namespace longwave
