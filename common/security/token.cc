#include "common/security/token.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/errors.h"

namespace longwave {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
constexpr size_t kFingerprintChars = Token::kFingerprintBytes * 8 / 5;

}  // namespace

std::string Base32(std::span<const std::byte> bytes, size_t chars) {
  std::string text;
  for (size_t i = 0; i < chars; ++i) {
    uint32_t five = 0;
    for (size_t bit = i * 5; bit < i * 5 + 5; ++bit) {
      const bool set = bit / 8 < bytes.size() &&
                       (std::to_integer<uint32_t>(bytes[bit / 8]) >> (7 - bit % 8) & 1) != 0;
      five = five << 1 | (set ? 1 : 0);
    }
    text.push_back(kAlphabet[five]);
  }
  return text;
}

bool IsBase32(std::string_view text, size_t chars) {
  return text.size() == chars && text.find_first_not_of(kAlphabet) == std::string_view::npos;
}

std::string FormatToken(const Token& token) {
  return absl::StrCat("lw1.", token.id, ".", token.secret, ".",
                      Base32(token.authority, kFingerprintChars));
}

absl::StatusOr<Token> ParseToken(std::string_view text) {
  constexpr size_t kTextBytesMax = 256;
  const auto refuse = [](std::string_view why) {
    return InvalidArgument("token: ", why,
                           "; wanted lw1.ID.SECRET.AUTHORITY as `longwave token create` prints it");
  };
  if (text.size() > kTextBytesMax) return refuse("too long");
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '.');
  if (parts.size() != 4) return refuse(absl::StrCat("got ", parts.size(), " parts, wanted 4"));
  if (parts[0] != "lw1") return refuse("does not begin with lw1");
  if (!IsBase32(parts[1], Token::kIdChars)) return refuse("its ID is not 10 letters and digits");
  if (!IsBase32(parts[2], Token::kSecretChars))
    return refuse("its SECRET is not 26 letters and digits");
  if (!IsBase32(parts[3], kFingerprintChars))
    return refuse("its AUTHORITY is not 32 letters and digits");
  Token token{.id = parts[1], .secret = parts[2]};
  uint32_t bits = 0;
  size_t count = 0, place = 0;
  for (const char c : parts[3]) {
    bits = bits << 5 | static_cast<uint32_t>(kAlphabet.find(c));
    for (count += 5; count >= 8; count -= 8) {
      token.authority[place++] = static_cast<std::byte>(bits >> (count - 8) & 0xff);
    }
  }
  return token;
}

}  // namespace longwave
