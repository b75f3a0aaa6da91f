#include "common/security/identity.h"

#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

constexpr absl::string_view kScheme = "longwave:";

bool IsUnreserved(unsigned char c) {
  return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

std::string Escape(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (IsUnreserved(byte)) {
      escaped.push_back(c);
    } else {
      escaped += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return escaped;
}

// Returns false at a % without two digits.
bool Unescape(absl::string_view text, std::string* plain) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain->push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return false;
    uint8_t byte = 0;
    const char* const end = text.data() + i + 3;
    if (std::from_chars(text.data() + i + 1, end, byte, 16).ptr != end) return false;
    plain->push_back(static_cast<char>(byte));
    i += 2;
  }
  return true;
}

absl::Status Wanted(std::string_view text) {
  return InvalidArgument(
      "role: got ", Quotable(std::string(text)),
      ", wanted coordinator, shard/N, worker/NAME (UTF-8 without control characters) or "
      "operator");
}

}  // namespace

std::string SubjectOf(const Identity& identity) {
  return identity.role == Role::kShard ? absl::StrCat("shard/", identity.shard)
                                       : absl::StrCat("worker/", identity.worker);
}

std::string UriOf(const Identity& identity) {
  switch (identity.role) {
    case Role::kCoordinator:
      return absl::StrCat(kScheme, "coordinator");
    case Role::kShard:
      return absl::StrCat(kScheme, "shard/", identity.shard);
    case Role::kWorker:
      return absl::StrCat(kScheme, "worker/", Escape(identity.worker));
    case Role::kOperator:
      break;
  }
  return absl::StrCat(kScheme, "operator");
}

absl::StatusOr<Identity> ParseIdentity(std::string_view text) {
  absl::string_view rest(text.data(), text.size());
  if (rest == "coordinator") return CoordinatorIdentity();
  if (rest == "operator") return OperatorIdentity();
  if (absl::ConsumePrefix(&rest, "shard/")) {
    uint32_t shard = 0;
    // Leading zeros and signs would give one shard several names.
    if (!absl::SimpleAtoi(rest, &shard) || absl::StrCat(shard) != rest) return Wanted(text);
    return ShardIdentity(shard);
  }
  if (!absl::ConsumePrefix(&rest, "worker/") || rest.empty() ||
      rest.size() > kIdentityNameBytesMax ||
      FindInvalidUtf8(std::string(rest)) != std::string::npos ||
      FindControlCharacter(std::string(rest), "") != std::string::npos) {
    return Wanted(text);
  }
  return WorkerIdentity(std::string_view(rest.data(), rest.size()));
}

absl::StatusOr<Identity> ParseIdentityUri(std::string_view uri) {
  absl::string_view rest(uri.data(), uri.size());
  std::string plain;
  if (!absl::ConsumePrefix(&rest, kScheme) || !Unescape(rest, &plain)) return Wanted(uri);
  LONGWAVE_ASSIGN_OR_RETURN(Identity identity, ParseIdentity(plain));
  if (UriOf(identity) != uri) return Wanted(uri);
  return identity;
}

std::string Describe(const Identity& identity) {
  switch (identity.role) {
    case Role::kCoordinator:
      return "the coordinator";
    case Role::kShard:
      return absl::StrCat("shard ", identity.shard);
    case Role::kWorker:
      return absl::StrCat("worker ", Quotable(identity.worker));
    case Role::kOperator:
      break;
  }
  return "an operator";
}

std::string Describe(const std::vector<Identity>& identities) {
  constexpr size_t kShownMax = 4;
  if (identities.empty()) return "nobody";
  std::string text;
  for (size_t i = 0; i < identities.size() && i < kShownMax; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : " or ", Describe(identities[i]));
  }
  if (identities.size() > kShownMax)
    absl::StrAppend(&text, " or ", identities.size() - kShownMax, " others");
  return text;
}

}  // namespace longwave
