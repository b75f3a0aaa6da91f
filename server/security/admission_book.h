#ifndef LONGWAVE_SERVER_SECURITY_ADMISSION_BOOK_H_
#define LONGWAVE_SERVER_SECURITY_ADMISSION_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/certificates.h"

namespace longwave {

// Whom tokens have let in, whom they may still let in, and who was expelled: pure, with times,
// random words and hashes as arguments. Whoever steps it makes it durable before he answers.
//
// Subjects are written as identities are ("worker/NAME", "shard/N"). A name belongs to the key that
// came with it first: another key gets it only by a token that was made for that name. A redemption
// by the same key is the first one again, answered and not counted, so that an answer that was lost
// costs nothing.
using KeyHash = Fingerprint;

struct TokenRecord {
  std::string id;
  KeyHash secret{};     // SHA-256 of the token's secret
  std::string subject;  // "worker/": a worker of any name
  absl::Time expires;
  uint32_t uses = 1;
  bool revoked = false;
  // Whom it has let in, each a use, and with which key.
  std::vector<std::pair<std::string, KeyHash>> joined;
  bool operator==(const TokenRecord&) const = default;
};

class AdmissionBook {
 public:
  static constexpr size_t kTokensMax = 4096;
  static constexpr uint32_t kUsesMax = 65536;
  static constexpr absl::Duration kLifeMax = absl::Hours(24 * 366);
  static constexpr char kAnyWorker[] = "worker/";
  // As bytes: a hundred thousand workers that have joined, and a sixteenth for names of expelled.
  static constexpr size_t kBytesMax = 16 << 20;

  explicit AdmissionBook(size_t bytes_max = kBytesMax) : bytes_max_(bytes_max) {}

  // InvalidArgument: no life or uses, or more than the limits. ResourceExhausted: kTokensMax tokens
  // that can still be used, or bytes_max. Tokens that can't are forgotten when they would not fit.
  absl::Status Create(const std::string& id, const KeyHash& secret, const std::string& subject,
                      absl::Duration life, uint32_t uses, absl::Time now);
  // NotFound.
  absl::Status Revoke(const std::string& id);

  // PermissionDenied: the token is unknown (or its secret is wrong), revoked or expired.
  absl::Status CheckToken(const std::string& id, const KeyHash& secret, absl::Time now) const;

  // PermissionDenied: the token is unknown (or its secret is wrong), revoked, expired, used up, or
  // for somebody else; the subject was expelled. AlreadyExists: the subject is another key's; or it
  // takes part already with a certificate that this book knows nothing of (is_taken).
  // ResourceExhausted: bytes_max.
  absl::Status Redeem(const std::string& id, const KeyHash& secret, const std::string& subject,
                      const KeyHash& key, bool is_taken, absl::Time now);

  // A worker's name takes no part any more. Its key loses the name, and the tokens that have let
  // the name in let nobody else in: whoever was put out may hold what is left of them. Returns the
  // ids of those that this revokes.
  std::vector<std::string> Expel(const std::string& name);
  // Other workers that a token has let in which has let this one in, and whose names are still of
  // the keys that came with it; by name, `most` at most. What a useless token has done is forgotten
  // when the book needs its space.
  std::vector<std::string> JoinedBeside(const std::string& name, size_t most) const;
  // The name may take part again. by_token: it belongs to no key until a token lets one in, so that
  // the certificates from before are worth nothing. NotFound: was not expelled.
  absl::Status Readmit(const std::string& name, bool by_token);
  bool IsExpelled(const std::string& name) const { return expelled_.contains(name); }
  // The key that a subject belongs to; nothing: no token has let it in. kNoKey: it was expelled,
  // and readmitted by token.
  std::optional<KeyHash> OwnerOf(const std::string& subject) const;

  const std::map<std::string, TokenRecord>& tokens() const { return tokens_; }
  const std::set<std::string>& expelled() const { return expelled_; }
  const std::map<std::string, KeyHash>& owners() const { return owners_; }

  // As bytes, with a version and a checksum. DataLoss: not those of a book.
  std::vector<std::byte> Encode() const;
  size_t EncodedBytes() const;  // how many
  static absl::StatusOr<AdmissionBook> Decode(std::span<const std::byte> bytes);

  bool operator==(const AdmissionBook&) const = default;

 private:
  static bool IsUsable(const TokenRecord& token, absl::Time now);
  void ForgetUseless(absl::Time now);
  // That there is space for so many more; without useless tokens if need be.
  absl::Status MakeSpace(size_t bytes, absl::Time now);

  size_t bytes_max_;
  std::map<std::string, TokenRecord> tokens_;  // by id
  std::map<std::string, KeyHash> owners_;      // by subject
  std::set<std::string> expelled_;             // names of workers
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SECURITY_ADMISSION_BOOK_H_
