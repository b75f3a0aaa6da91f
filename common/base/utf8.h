#ifndef LONGWAVE_COMMON_BASE_UTF8_H_
#define LONGWAVE_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace longwave {

// Offset of the first byte that is not part of a well-formed UTF-8 sequence (RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF), or npos.
size_t FindInvalidUtf8(std::string_view text);

// Offset of the first control character (below U+0020, or U+007F) that is not in `allowed`, or
// npos.
size_t FindControlCharacter(std::string_view text, std::string_view allowed);

// `text` for an error message: one line, control characters and stray bytes escaped, long ones cut.
std::string Quotable(std::string_view text);

// At most `bytes_max` (at least 3) bytes of `text`, in whole characters, with "…" at the end where
// it was cut; each byte that is not UTF-8 becomes '?'. For sentences that other processes get.
std::string Utf8Prefix(std::string_view text, size_t bytes_max);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_UTF8_H_
