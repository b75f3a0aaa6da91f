#ifndef LONGWAVE_WORKER_DATA_TOKEN_FILES_H_
#define LONGWAVE_WORKER_DATA_TOKEN_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/token_piece.h"

namespace longwave {

// Maps a file of tokens. A file that shrinks while mapped crashes the process. The formats:
//   llm.c's shards  a header of 256 32-bit numbers: 20240520, version 1, the number of tokens, then
//                   tokens of 16 bits; or 20240801, version 7, and tokens of 32 bits (Llama 3)
//   Megatron's      only tokens, of the width that the .idx beside the .bin tells
//   nanoGPT's       only tokens, of raw_width bytes each
// InvalidArgument: another format (file_form.h). NotFound, PermissionDenied, DataLoss: the file.
//   source: llm.c, dev/data/data_common.py; Megatron-LM, megatron/core/datasets/indexed_dataset.py
absl::StatusOr<TokenPiece> MapTokens(const std::string& path, uint32_t raw_width);

// Tells the system that windows of a mapped piece are read from now on, which are far apart.
void ReadAtRandom(const TokenPiece& piece);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_TOKEN_FILES_H_
