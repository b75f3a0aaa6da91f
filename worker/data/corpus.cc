#include "worker/data/corpus.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "worker/data/data_files.h"
#include "worker/data/held_out.h"
#include "worker/data/text_files.h"
#include "worker/data/token_files.h"

namespace longwave {
namespace {

// Separates the streams of batches from other streams of the same seed.
constexpr uint64_t kBatchStream = 0x6261746368;  // "batch"

// Of the lines about what is left out, those that are shown.
constexpr size_t kLeftOutShown = 5;

// Of a folder, the files that are named as files of tokens are.
absl::StatusOr<std::vector<std::string>> TokenFilesOf(const std::string& path,
                                                      const std::vector<std::string>& files,
                                                      std::vector<std::string>* left_out) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return files;
  std::vector<std::string> tokens;
  for (const std::string& file : files) {
    if (file.ends_with(".bin")) {
      tokens.push_back(file);
    } else {
      left_out->push_back(absl::StrCat(file, ": not named *.bin"));
    }
  }
  if (!tokens.empty() || files.empty()) return tokens;
  return InvalidArgument("data: ", path, " has no *.bin, got ", files.front(),
                         ", wanted files of tokens; a pattern such as '", path,
                         "/*' takes those of other names");
}

absl::StatusOr<std::vector<std::string>> FilesOf(const DataSection& data, const std::string& path,
                                                 std::vector<std::string>* left_out) {
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<std::string> files, DataFiles(path, left_out));
  if (data.kind == "tokens") return TokenFilesOf(path, files, left_out);
  return files;
}

absl::StatusOr<std::vector<TokenPiece>> Pieces(const DataSection& data,
                                               const std::vector<std::string>& files,
                                               std::vector<std::string>* left_out) {
  if (data.kind != "tokens") return ReadText(files, data.kind == "bytes");
  std::vector<TokenPiece> pieces;
  for (const std::string& file : files) {
    LONGWAVE_ASSIGN_OR_RETURN(TokenPiece piece,
                              MapTokens(file, data.token_type == "uint32" ? 4 : 2));
    if (piece.count == 0) left_out->push_back(absl::StrCat(file, ": it holds no tokens"));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

uint64_t CountOf(const std::vector<TokenPiece>& pieces) {
  uint64_t count = 0;
  for (const TokenPiece& piece : pieces) count += piece.count;
  return count;
}

const char* UnitOf(const DataSection& data) { return data.kind == "tokens" ? "tokens" : "bytes"; }

// Whether each part has a window and the token behind it.
absl::Status CheckLengths(uint64_t train, uint64_t validation, const DataSection& data,
                          uint32_t context) {
  const uint64_t wanted = uint64_t{context} + 1;
  for (const auto& [part, count] :
       {std::pair<const char*, uint64_t>{"training", train}, {"validation", validation}}) {
    if (count >= wanted) continue;
    const bool own = count == validation && !data.validation_path.empty();
    return InvalidArgument("data: ", own ? data.validation_path : data.path, " leaves ", count, " ",
                           UnitOf(data), " to the ", part, " part; wanted at least ", wanted,
                           " (model.context + 1)");
  }
  return absl::OkStatus();
}

// The largest of `count` numbers. A loop of a fixed length is one of vector instructions.
template <typename Number>
uint32_t Largest(const std::byte* bytes, uint64_t count) {
  std::array<Number, 2048> numbers;
  Number largest = 0;
  while (count > 0) {
    const uint64_t some = std::min<uint64_t>(count, numbers.size());
    if (some < numbers.size()) numbers.fill(0);
    std::memcpy(numbers.data(), bytes, some * sizeof(Number));
    for (const Number number : numbers) largest = std::max(largest, number);
    bytes += some * sizeof(Number);
    count -= some;
  }
  return largest;
}

uint32_t TokenAt(const TokenPiece& piece, uint64_t index) {
  uint32_t token = 0;
  std::memcpy(&token, piece.bytes + index * piece.width, piece.width);
  return token;
}

// The first line with more than spaces, for people.
std::string BeginningOf(std::string_view text) {
  constexpr size_t kShownBytes = 60;
  text = text.substr(0, 4096);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  text = text.substr(0, text.find_first_of("\r\n"));
  return Utf8Prefix(Printable(text), kShownBytes);
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

absl::StatusOr<Corpus> Corpus::FromParts(Parts parts, const DataSection& data,
                                         const ModelSection& model) {
  const uint64_t count = CountOf(parts.train);
  if (count == 0) {
    return InvalidArgument("data: ", data.path, " holds no ", UnitOf(data), "; wanted ",
                           data.kind == "text" ? "text" : UnitOf(data));
  }
  if (!parts.is_apart && !(data.validation_share >= 0 && data.validation_share < 1)) {
    return InvalidArgument("data.validation_share is ", data.validation_share,
                           "; wanted 0 or more and below 1");
  }
  uint64_t train_count = count;
  if (!parts.is_apart) {
    train_count =
        static_cast<uint64_t>(std::floor(static_cast<double>(count) * (1 - data.validation_share)));
  }
  std::vector<TokenPiece> pieces = parts.train;
  pieces.insert(pieces.end(), parts.validation.begin(), parts.validation.end());
  const uint64_t held_out = CountOf(pieces) - train_count;
  train_count = RemoveHeldOut(&pieces, train_count, parts.is_apart, &parts.left_out);
  LONGWAVE_RETURN_IF_ERROR(CheckLengths(train_count, held_out, data, model.context));
  Corpus corpus(std::move(pieces), train_count, model.context, model.vocabulary);
  LONGWAVE_RETURN_IF_ERROR(corpus.LookThrough(data, parts));
  return corpus;
}

absl::StatusOr<Corpus> Corpus::Load(const DataSection& data, const ModelSection& model) {
  Parts parts;
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<std::string> files,
                            FilesOf(data, data.path, &parts.left_out));
  std::vector<std::string> held_out;
  if (data.validation_path.empty()) {
    held_out = TakeHeldOut(&files, &parts.left_out);
  } else {
    LONGWAVE_ASSIGN_OR_RETURN(held_out, FilesOf(data, data.validation_path, &parts.left_out));
  }
  parts.is_apart = !held_out.empty() || !data.validation_path.empty();
  LONGWAVE_ASSIGN_OR_RETURN(parts.train, Pieces(data, files, &parts.left_out));
  LONGWAVE_ASSIGN_OR_RETURN(parts.validation, Pieces(data, held_out, &parts.left_out));
  return FromParts(std::move(parts), data, model);
}

absl::StatusOr<Corpus> Corpus::FromText(std::string text, double validation_share, uint32_t context,
                                        const std::string& source) {
  Parts parts{.train = {PieceOf(std::move(text), source)}};
  return FromParts(std::move(parts),
                   {.kind = "text", .path = source, .validation_share = validation_share},
                   {.context = context});
}

absl::Status Corpus::OutOfVocabulary(const TokenPiece& piece, uint64_t index,
                                     uint32_t token) const {
  return InvalidArgument("data: ", piece.path, ": token ", index, " is ", token,
                         ", wanted one below model.vocabulary (", vocabulary_, ")");
}

absl::Status Corpus::LookThrough(const DataSection& data, const Parts& parts) {
  constexpr uint64_t kBlockTokens = uint64_t{1} << 19;  // in a cache for both of their readers
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                             &XXH3_freeState);
  LONGWAVE_CHECK(hash != nullptr && XXH3_64bits_reset(hash.get()) == XXH_OK);
  uint32_t largest = 0;
  for (const TokenPiece& piece : pieces_) {
    for (uint64_t begin = 0; begin < piece.count; begin += kBlockTokens) {
      const uint64_t count = std::min(kBlockTokens, piece.count - begin);
      const std::byte* const block = piece.bytes + begin * piece.width;
      LONGWAVE_CHECK(XXH3_64bits_update(hash.get(), block, count * piece.width) == XXH_OK);
      if (piece.width == 1) continue;  // every vocabulary has all bytes
      const uint32_t here =
          piece.width == 2 ? Largest<uint16_t>(block, count) : Largest<uint32_t>(block, count);
      for (uint64_t i = begin; here >= vocabulary_ && i < begin + count; ++i) {
        const uint32_t token = TokenAt(piece, i);
        if (token >= vocabulary_) return OutOfVocabulary(piece, i, token);
      }
      largest = std::max(largest, here);
    }
    if (piece.width > 1) ReadAtRandom(piece);
  }
  report_.hash = XXH3_64bits_digest(hash.get());
  const auto amount = [&](uint64_t count) {
    return data.kind == "tokens" ? absl::StrCat(count, " tokens")
                                 : FormatBytes(static_cast<double>(count));
  };
  const auto files = [](const std::vector<TokenPiece>& of) {
    return absl::StrCat(of.size(), of.size() == 1 ? " file" : " files");
  };
  const std::string beginning = data.kind == "text"
                                    ? absl::StrCat(", begins ", BeginningOf(pieces_.front().text()))
                                : data.kind == "tokens" ? absl::StrCat(", the largest ", largest)
                                                        : "";
  report_.lines = {absl::StrCat("data      ", data.kind, ", ", files(parts.train), ", ",
                                amount(train_count_), " to train on", beginning),
                   absl::StrCat("held out  ", amount(count_ - train_count_),
                                parts.is_apart ? absl::StrCat(" of ", files(parts.validation), ", ",
                                                              parts.validation.front().path)
                                               : " at the end")};
  for (size_t i = 0; i < std::min(parts.left_out.size(), kLeftOutShown); ++i)
    report_.lines.push_back(absl::StrCat("left out  ", parts.left_out[i]));
  if (parts.left_out.size() > kLeftOutShown) {
    report_.lines.push_back(
        absl::StrCat("left out  ", parts.left_out.size() - kLeftOutShown, " more"));
  }
  return absl::OkStatus();
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
      const uint32_t token = TokenAt(*piece, i);
      if (token >= vocabulary_) return OutOfVocabulary(*piece, i, token);
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
