#ifndef LONGWAVE_WORKER_DATA_TOKEN_PIECE_H_
#define LONGWAVE_WORKER_DATA_TOKEN_PIECE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace longwave {

// Contiguous tokens in memory, those of one file: little-endian numbers of `width` bytes.
struct TokenPiece {
  std::string path;                   // for errors
  std::shared_ptr<const void> owner;  // of the bytes
  const std::byte* bytes = nullptr;
  uint64_t count = 0;
  uint32_t width = 1;
  uint64_t begin = 0;  // the first token's index in the corpus

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes), count * width}; }
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_TOKEN_PIECE_H_
