#include "common/base/utf8.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

// Whether `text` begins with a control character. Characters beyond ASCII are compared as bytes.
bool IsControl(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  const auto is_in = [](int value, int low, int high) { return value >= low && value <= high; };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return true;
  if (byte(0) == 0xc2)
    return is_in(byte(1), 0x80, 0x9f);  // C1: U+009B begins a sequence like ESC [
  if (byte(0) == 0xd8) return byte(1) == 0x9c;
  if (byte(0) != 0xe2) return false;
  if (byte(1) == 0x80) return is_in(byte(2), 0x8e, 0x8f) || is_in(byte(2), 0xa8, 0xae);
  return byte(1) == 0x81 && is_in(byte(2), 0xa6, 0xa9);
}

}  // namespace

size_t Utf8Length(std::string_view text) {
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

size_t FindInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

size_t FindControlCharacter(std::string_view text, std::string_view allowed) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (IsControl(text.substr(at)) && allowed.find(text[at]) == std::string_view::npos) return at;
  }
  return std::string_view::npos;
}

std::string Printable(std::string_view text) {
  std::string printable;
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text.substr(at));
    const std::string_view character = text.substr(at, std::max<size_t>(length, 1));
    if (length > 0 && !IsControl(character)) {
      printable += character;
    } else {
      printable += absl::CHexEscape(std::string(character));
    }
    at += character.size();
  }
  return printable;
}

std::string Quotable(std::string_view text) {
  constexpr size_t kBytesShown = 80;
  if (text.size() <= kBytesShown) return Printable(text);
  text = text.substr(0, kBytesShown);
  // The cut is moved to a character's boundary.
  const size_t broken = FindInvalidUtf8(text);
  if (broken != std::string_view::npos && broken + 4 > text.size()) text = text.substr(0, broken);
  return absl::StrCat(Printable(text), "…");
}

std::string Utf8Prefix(std::string_view text, size_t bytes_max) {
  constexpr std::string_view kEllipsis = "…";
  const bool cut = text.size() > bytes_max;
  const size_t room = cut ? bytes_max - kEllipsis.size() : bytes_max;
  std::string prefix;
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text.substr(at));
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
