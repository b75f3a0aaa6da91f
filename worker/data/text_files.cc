#include "worker/data/text_files.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/data/data_files.h"
#include "worker/data/file_form.h"
#include "worker/data/unpack.h"

namespace longwave {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

absl::Status TooMuch(const std::string& path) {
  return ResourceExhausted(
      "data: more than ", kCorpusBytesMax >> 30, " GiB of text up to ", path,
      "; wanted at most that, which a worker holds in memory: name a smaller file or "
      "folder, another one on each worker if you like");
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t bytes_max) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) return FileError(path, error);
  if (size > bytes_max) return TooMuch(path);
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return FileError(path, std::error_code(errno, std::generic_category()));
  std::string content(size, '\0');
  stream.read(content.data(), static_cast<std::streamsize>(size));
  if (static_cast<uint64_t>(stream.gcount()) == size) return content;
  return DataLoss("data: ", path, ": read ", stream.gcount(), " bytes, wanted ", size);
}

absl::StatusOr<TokenPiece> ReadTextFile(const std::string& path, std::string packed,
                                        uint64_t bytes_max) {
  absl::StatusOr<std::string> text = Unpacked(std::move(packed), bytes_max);
  if (absl::IsResourceExhausted(text.status())) return TooMuch(path);
  if (!text.ok()) return Prefixed(absl::StrCat("data: ", path), text.status());
  LONGWAVE_RETURN_IF_ERROR(CheckText(path, *text));
  const bool has_mark = text->starts_with(kByteOrderMark);
  TokenPiece piece = PieceOf(*std::move(text), path);
  if (has_mark) {
    piece.bytes += kByteOrderMark.size();
    piece.count -= kByteOrderMark.size();
  }
  return piece;
}

}  // namespace

TokenPiece PieceOf(std::string text, const std::string& path) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return {.path = path,
          .owner = owner,
          .bytes = reinterpret_cast<const std::byte*>(owner->data()),
          .count = owner->size()};
}

absl::StatusOr<std::vector<TokenPiece>> ReadText(const std::vector<std::string>& files,
                                                 bool any_bytes) {
  std::vector<TokenPiece> pieces;
  pieces.reserve(files.size());
  uint64_t left = kCorpusBytesMax;
  for (const std::string& file : files) {
    LONGWAVE_ASSIGN_OR_RETURN(std::string content, ReadFile(file, left));
    if (any_bytes) {
      pieces.push_back(PieceOf(std::move(content), file));
    } else {
      LONGWAVE_ASSIGN_OR_RETURN(TokenPiece piece, ReadTextFile(file, std::move(content), left));
      pieces.push_back(std::move(piece));
    }
    left -= pieces.back().count;
  }
  return pieces;
}

}  // namespace longwave
