#include "server/security/admission_book.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/byte_stream.h"
#include "common/wire/crc32c.h"

namespace longwave {
namespace {

constexpr uint32_t kMagic = 0x424c574c;  // "LWLB"
constexpr uint32_t kVersion = 1;

// The encoded size of a token without its texts and the subjects that it has admitted.
constexpr size_t kWordBytes = 8;
constexpr size_t kTokenBytes = 6 * kWordBytes + sizeof(KeyHash);
size_t BytesOf(const std::string& subject, const KeyHash& key) {
  return kWordBytes + subject.size() + key.size();
}

KeyHash GetHash(ByteReader& in) {
  KeyHash hash{};
  std::ranges::copy(in.GetBytes(hash.size()), hash.begin());
  return hash;
}

}  // namespace

bool AdmissionBook::IsUsable(const TokenRecord& token, absl::Time now) {
  return !token.revoked && now < token.expires && token.joined.size() < token.uses;
}

void AdmissionBook::ForgetUseless(absl::Time now) {
  std::erase_if(tokens_, [&](const auto& entry) { return !IsUsable(entry.second, now); });
}

size_t AdmissionBook::EncodedBytes() const {
  size_t bytes = 5 * kWordBytes;  // the head and the counts
  for (const auto& [id, token] : tokens_) {
    bytes += kTokenBytes + id.size() + token.subject.size();
    for (const auto& [subject, key] : token.joined) bytes += BytesOf(subject, key);
  }
  for (const auto& [subject, key] : names_.owners) bytes += BytesOf(subject, key);
  for (const std::string& name : names_.expelled) bytes += kWordBytes + name.size();
  return bytes;
}

absl::Status AdmissionBook::MakeSpace(size_t bytes, absl::Time now) {
  // The rest is reserved for expelled names.
  const size_t most = bytes_max_ - bytes_max_ / 16;
  if (EncodedBytes() + bytes > most) ForgetUseless(now);
  if (const size_t has = EncodedBytes(); has + bytes > most) {
    return ResourceExhausted("the book of tokens has ", has, " bytes of at most ", most, ", with ",
                             tokens_.size(),
                             " tokens that can still be used; revoke some of those");
  }
  return absl::OkStatus();
}

absl::Status AdmissionBook::Create(const std::string& id, const KeyHash& secret,
                                   const std::string& subject, absl::Duration life, uint32_t uses,
                                   absl::Time now) {
  if (life <= absl::ZeroDuration() || life > kLifeMax) {
    return InvalidArgument("a token's life: got ", absl::FormatDuration(life),
                           ", wanted more than 0 and at most ", absl::FormatDuration(kLifeMax));
  }
  if (uses == 0 || uses > kUsesMax) {
    return InvalidArgument("a token's uses: got ", uses, ", wanted 1 to ", kUsesMax);
  }
  if (subject != kAnyWorker && uses != 1) {
    return InvalidArgument("a token's uses: got ", uses, " for ", subject,
                           " alone, wanted 1, since a name belongs to one key");
  }
  if (tokens_.size() >= kTokensMax) ForgetUseless(now);
  if (tokens_.size() >= kTokensMax) {
    return ResourceExhausted("there are ", tokens_.size(),
                             " tokens that can still be used; revoke some");
  }
  if (tokens_.contains(id)) return AlreadyExists("a token of that id exists");
  LONGWAVE_RETURN_IF_ERROR(MakeSpace(kTokenBytes + id.size() + subject.size(), now));
  // Whole milliseconds, as Decode will read them.
  const absl::Time expires = absl::FromUnixMillis(absl::ToUnixMillis(now + life));
  tokens_[id] = {id, secret, subject, expires, uses, false, {}};
  return absl::OkStatus();
}

absl::Status AdmissionBook::Revoke(const std::string& id) {
  const auto found = tokens_.find(id);
  if (found == tokens_.end()) return NotFound("no token has the id ", id);
  found->second.revoked = true;
  return absl::OkStatus();
}

absl::Status AdmissionBook::CheckToken(const std::string& id, const KeyHash& secret,
                                       absl::Time now) const {
  const auto found = tokens_.find(id);
  // Both cases have one message, so that callers cannot probe for ids.
  if (found == tokens_.end() || found->second.secret != secret)
    return PermissionDenied("the token is not one of this run's");
  const TokenRecord& token = found->second;
  if (token.revoked) return PermissionDenied("token ", id, ": it was revoked");
  if (now >= token.expires) {
    return PermissionDenied(
        "token ", id, ": it expired ",
        absl::FormatDuration(absl::Floor(now - token.expires, absl::Seconds(1))), " ago");
  }
  return absl::OkStatus();
}

absl::Status AdmissionBook::Redeem(const std::string& id, const KeyHash& secret,
                                   const std::string& subject, const KeyHash& key, bool is_taken,
                                   absl::Time now) {
  LONGWAVE_RETURN_IF_ERROR(CheckToken(id, secret, now));
  TokenRecord& token = tokens_.at(id);
  const std::string who = absl::StrCat("token ", id, " for ", subject, ": ");
  if (absl::StartsWith(subject, kAnyWorker) &&
      names_.IsExpelled(subject.substr(std::strlen(kAnyWorker)))) {
    return PermissionDenied(who + "the name was expelled from the run");
  }
  const bool is_for_any = token.subject == kAnyWorker;
  if (is_for_any ? !absl::StartsWith(subject, kAnyWorker) : subject != token.subject) {
    return PermissionDenied(who, "it was made for ",
                            is_for_any ? "workers" : token.subject + " alone");
  }
  const std::pair joined(subject, key);
  const std::optional<KeyHash> owner = names_.OwnerOf(subject);
  const bool is_again =
      std::ranges::find(token.joined, joined) != token.joined.end() && owner == key;
  if (is_again) return absl::OkStatus();
  if (token.joined.size() >= token.uses) {
    return PermissionDenied(who, "it was used ", token.joined.size(), " of ", token.uses,
                            token.uses == 1 ? " time" : " times");
  }
  if (is_for_any && owner != kNoKey && (owner ? owner != key : is_taken)) {
    return AlreadyExists(
        who, "the name is another's; wanted a name of one's own, or a token made for this name");
  }
  LONGWAVE_RETURN_IF_ERROR(MakeSpace(2 * BytesOf(subject, key), now));
  token.joined.push_back(joined);
  names_.owners[subject] = key;
  return absl::OkStatus();
}

std::vector<std::string> AdmissionBook::Expel(const std::string& name) {
  const std::string subject = absl::StrCat(kAnyWorker, name);
  names_.expelled.insert(name);
  names_.owners.erase(subject);
  std::vector<std::string> revoked;
  for (auto& [id, token] : tokens_) {
    const bool has_let_it_in = std::ranges::any_of(
        token.joined, [&subject](const auto& joined) { return joined.first == subject; });
    if (has_let_it_in && !std::exchange(token.revoked, true)) revoked.push_back(id);
  }
  return revoked;
}

std::vector<std::string> AdmissionBook::JoinedBeside(const std::string& name, size_t most) const {
  const std::string subject = absl::StrCat(kAnyWorker, name);
  std::set<std::string> names;
  for (const auto& [id, token] : tokens_) {
    const bool has_let_it_in = std::ranges::any_of(
        token.joined, [&subject](const auto& joined) { return joined.first == subject; });
    if (!has_let_it_in) continue;
    for (const auto& [other, key] : token.joined) {
      if (other == subject || names_.OwnerOf(other) != key) continue;
      names.insert(other.substr(std::strlen(kAnyWorker)));
      if (names.size() > most) names.erase(std::prev(names.end()));
    }
  }
  return {names.begin(), names.end()};
}

absl::Status AdmissionBook::Readmit(const std::string& name, bool by_token) {
  if (names_.expelled.erase(name) == 0) return NotFound("worker ", name, " was not expelled");
  if (by_token) names_.owners[absl::StrCat(kAnyWorker, name)] = kNoKey;
  return absl::OkStatus();
}

std::vector<std::byte> AdmissionBook::Encode() const {
  ByteWriter out;
  out.Put<uint64_t>(tokens_.size());
  for (const auto& [id, token] : tokens_) {
    out.PutSizedText(id);
    out.PutBytes(token.secret);
    out.PutSizedText(token.subject);
    out.Put<uint64_t>(static_cast<uint64_t>(absl::ToUnixMillis(token.expires)));
    out.Put<uint64_t>(token.uses);
    out.Put<uint64_t>(token.revoked ? 1 : 0);
    out.Put<uint64_t>(token.joined.size());
    for (const auto& [subject, key] : token.joined) {
      out.PutSizedText(subject);
      out.PutBytes(key);
    }
  }
  out.Put<uint64_t>(names_.owners.size());
  for (const auto& [subject, key] : names_.owners) {
    out.PutSizedText(subject);
    out.PutBytes(key);
  }
  out.Put<uint64_t>(names_.expelled.size());
  for (const std::string& name : names_.expelled) out.PutSizedText(name);
  ByteWriter all;
  all.Put<uint64_t>(uint64_t{kVersion} << 32 | kMagic);
  all.Put<uint64_t>(Crc32c(out.bytes()));
  all.PutBytes(out.bytes());
  return all.Take();
}

absl::StatusOr<AdmissionBook> AdmissionBook::Decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto kind = in.Get<uint64_t>();
  const auto crc = in.Get<uint64_t>();
  if (!in.ok()) {
    return DataLoss("the book of tokens: got ", bytes.size(), " bytes, wanted at least 16");
  }
  if (constexpr uint64_t wanted = uint64_t{kVersion} << 32 | kMagic; kind != wanted) {
    return FailedPrecondition(absl::StrFormat(
        "the book of tokens: version and magic: got %016x, wanted %016x", kind, wanted));
  }
  if (const uint64_t wanted = Crc32c(bytes.last(in.left())); crc != wanted) {
    return DataLoss(
        absl::StrFormat("the book of tokens: CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  AdmissionBook book;
  for (uint64_t count = in.Get<uint64_t>(); count > 0 && in.ok(); --count) {
    TokenRecord token;
    token.id = in.GetSizedText();
    token.secret = GetHash(in);
    token.subject = in.GetSizedText();
    token.expires = absl::FromUnixMillis(static_cast<int64_t>(in.Get<uint64_t>()));
    token.uses = static_cast<uint32_t>(in.Get<uint64_t>());
    token.revoked = in.Get<uint64_t>() != 0;
    for (uint64_t uses = in.Get<uint64_t>(); uses > 0 && in.ok(); --uses) {
      std::string subject = in.GetSizedText();
      token.joined.emplace_back(std::move(subject), GetHash(in));
    }
    book.tokens_[token.id] = std::move(token);
  }
  for (uint64_t count = in.Get<uint64_t>(); count > 0 && in.ok(); --count) {
    const std::string subject = in.GetSizedText();
    book.names_.owners[subject] = GetHash(in);
  }
  for (uint64_t count = in.Get<uint64_t>(); count > 0 && in.ok(); --count)
    book.names_.expelled.insert(in.GetSizedText());
  if (!in.done()) return DataLoss("the book of tokens: its length is not what it says");
  return book;
}

}  // namespace longwave
