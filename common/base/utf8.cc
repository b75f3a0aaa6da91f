#include "common/base/utf8.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

// Bytes of the sequence at the start of `text`; 0 if it is not well formed.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto continues = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xbf) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;
    const uint8_t high = lead == 0xed ? 0x9f : 0xbf;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

size_t FindInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

size_t FindControlCharacter(std::string_view text, std::string_view allowed) {
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if ((byte < 0x20 || byte == 0x7f) && allowed.find(text[at]) == std::string_view::npos)
      return at;
  }
  return std::string_view::npos;
}

std::string Quotable(std::string_view text) {
  constexpr size_t kBytesShown = 80;
  const bool cut = text.size() > kBytesShown;
  if (cut) {
    text = text.substr(0, kBytesShown);
    // Not in the middle of a character.
    const size_t broken = FindInvalidUtf8(text);
    if (broken != std::string_view::npos && broken + 4 > text.size()) text = text.substr(0, broken);
  }
  const std::string shown(text);
  const char* const end = cut ? "…" : "";
  if (FindInvalidUtf8(text) != std::string_view::npos) {
    return absl::StrCat(absl::CHexEscape(shown), end);
  }
  const bool plain = FindControlCharacter(text, "") == std::string_view::npos;
  return absl::StrCat(plain ? shown : absl::Utf8SafeCHexEscape(shown), end);
}

std::string Utf8Prefix(std::string_view text, size_t bytes_max) {
  constexpr std::string_view kEllipsis = "…";
  const bool cut = text.size() > bytes_max;
  const size_t room = cut ? bytes_max - kEllipsis.size() : bytes_max;
  std::string prefix;
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text.substr(at));
    if (prefix.size() + std::max<size_t>(length, 1) > room) break;
    if (length == 0) {
      prefix += '?';
    } else {
      prefix += text.substr(at, length);
    }
    at += std::max<size_t>(length, 1);
  }
  if (cut) prefix += kEllipsis;
  return prefix;
}

}  // namespace longwave
