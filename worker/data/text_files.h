#ifndef LONGWAVE_WORKER_DATA_TEXT_FILES_H_
#define LONGWAVE_WORKER_DATA_TEXT_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/token_piece.h"

namespace longwave {

// Limit for text, which is loaded into memory whole.
inline constexpr uint64_t kCorpusBytesMax = uint64_t{1} << 30;

// Reads files whose bytes are the tokens, a piece each.
//   any_bytes  as they are. Otherwise they are text: what gzip or zstd packed is unpacked, a byte
//              order mark of UTF-8 is no part of it, and other forms are refused (file_form.h).
// ResourceExhausted: more than kCorpusBytesMax in all. InvalidArgument: no text. NotFound,
// PermissionDenied, DataLoss: a file.
absl::StatusOr<std::vector<TokenPiece>> ReadText(const std::vector<std::string>& files,
                                                 bool any_bytes);

TokenPiece PieceOf(std::string text, const std::string& path);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_TEXT_FILES_H_
