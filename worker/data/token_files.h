#ifndef LONGWAVE_WORKER_DATA_TOKEN_FILES_H_
#define LONGWAVE_WORKER_DATA_TOKEN_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/corpus.h"

namespace longwave {

// Maps a file of tokens. The formats are a shard of llm.c (a header of 256 32-bit numbers:
// 20240520, version 1, the number of tokens; then tokens of 16 bits) and nanoGPT's (only tokens, of
// raw_width bytes each). A file that shrinks while mapped crashes the process. InvalidArgument:
// another format. NotFound, PermissionDenied, DataLoss: the file.
//   source: llm.c, dev/data/data_common.py
absl::StatusOr<TokenPiece> MapTokens(const std::string& path, uint32_t raw_width);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_TOKEN_FILES_H_
