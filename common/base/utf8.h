#ifndef LONGWAVE_COMMON_BASE_UTF8_H_
#define LONGWAVE_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace longwave {

// Offset of the first byte that is not part of a well-formed UTF-8 sequence (RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF), or npos.
size_t FindInvalidUtf8(std::string_view text);

// Bytes of the character at the start of `text`, which is not empty; 0 if malformed.
size_t Utf8Length(std::string_view text);

// Offset of the first control character that is not in `allowed`, or npos. Control characters are
// those that a terminal executes or that end a line (U+0000 … U+001F, U+007F … U+009F, U+2028,
// U+2029), and those that change the direction of writing and so disguise a text (U+061C, U+200E,
// U+200F, U+202A … U+202E, U+2066 … U+2069).
size_t FindControlCharacter(std::string_view text, std::string_view allowed);

// `text` as one line without terminal controls: each control character and each byte that is not
// UTF-8 becomes \n, \t or \x1b. Idempotent.
std::string Printable(std::string_view text);

// `text` for an error message: Printable, and cut if long.
std::string Quotable(std::string_view text);

// At most `bytes_max` (at least 3) bytes of `text`, in whole characters, with "…" at the end of a
// cut text; each byte that is not UTF-8 becomes '?'. For sentences that other processes receive.
std::string Utf8Prefix(std::string_view text, size_t bytes_max);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_UTF8_H_
