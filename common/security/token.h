#ifndef LONGWAVE_COMMON_SECURITY_TOKEN_H_
#define LONGWAVE_COMMON_SECURITY_TOKEN_H_

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace longwave {

// The secret that admits a process to a run, as one word to copy:
//   lw1.<id>.<secret>.<authority>
// in lower-case base32 (RFC 4648, without padding). id: 10 characters, by which operators list and
// revoke the token. secret: 26 characters, 130 bits. authority: 32 characters, the first 20 bytes
// of the SHA-256 of the authority's certificate (DER), by which the joining process recognizes the
// coordinator before it sends the secret.
struct Token {
  static constexpr size_t kIdChars = 10;
  static constexpr size_t kSecretChars = 26;
  static constexpr size_t kFingerprintBytes = 20;

  std::string id;
  std::string secret;
  std::array<std::byte, kFingerprintBytes> authority{};
  bool operator==(const Token&) const = default;
};

std::string FormatToken(const Token& token);
// Errors: InvalidArgument, in a sentence without the secret.
absl::StatusOr<Token> ParseToken(std::string_view text);

// The first `chars` characters of the bytes' base32. bytes has at least 5·chars/8 elements.
std::string Base32(std::span<const std::byte> bytes, size_t chars);
bool IsBase32(std::string_view text, size_t chars);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_TOKEN_H_
