#ifndef LONGWAVE_WORKER_DATA_FILE_FORM_H_
#define LONGWAVE_WORKER_DATA_FILE_FORM_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace longwave {

// Forms that people have data in, by the bytes of a file. An error names the form and says what
// makes data of it that can be read. `path` is for the error.

// The first numbers of llm.c's files. Source: llm.c, dev/data/data_common.py and train_gpt2.c.
inline constexpr int32_t kLlmcShard = 20240520;
inline constexpr int32_t kLlmcLlama3Shard = 20240801;

// InvalidArgument: `content`, which is a whole file's, is of another known form than text; or it is
// not text: it has a byte 0, or too many other controls.
absl::Status CheckText(const std::string& path, std::string_view content);

// InvalidArgument: a file that begins with `head` is of a known form that is no file of tokens, or
// it is text, or its tokens are wider than `width` bytes.
absl::Status CheckTokens(const std::string& path, std::string_view head, uint32_t width);

// Bytes that CheckTokens looks at.
inline constexpr uint64_t kFormHeadBytes = 4096;

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_FILE_FORM_H_
