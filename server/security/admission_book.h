#ifndef LONGWAVE_SERVER_SECURITY_ADMISSION_BOOK_H_
#define LONGWAVE_SERVER_SECURITY_ADMISSION_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/call_policy.h"
#include "common/security/certificates.h"

namespace longwave {

// Admitted and expelled subjects, and the tokens that admit subjects. The class is pure: times,
// random words and hashes are arguments. The caller makes each change durable before it answers.
//
// Subjects have the form of identities ("worker/NAME", "shard/N"). A name belongs to the first key
// that came with it. Another key gets the name only by a token made for that name. A redemption
// repeated by the same key has the same answer and does not count, so a lost answer costs no use.
using KeyHash = Fingerprint;

struct TokenRecord {
  std::string id;
  KeyHash secret{};     // SHA-256 of the token's secret
  std::string subject;  // "worker/": any worker
  absl::Time expires;
  uint32_t uses = 1;
  bool revoked = false;
  // Subjects that the token has admitted, each with its key. Each counts as one use.
  std::vector<std::pair<std::string, KeyHash>> joined;
  bool operator==(const TokenRecord&) const = default;
};

class AdmissionBook {
 public:
  static constexpr size_t kTokensMax = 4096;
  static constexpr uint32_t kUsesMax = 65536;
  static constexpr absl::Duration kLifeMax = absl::Hours(24 * 366);
  static constexpr char kAnyWorker[] = "worker/";
  // In bytes: enough for a hundred thousand admitted workers. A sixteenth is reserved for expelled
  // names.
  static constexpr size_t kBytesMax = 16 << 20;

  explicit AdmissionBook(size_t bytes_max = kBytesMax) : bytes_max_(bytes_max) {}

  // InvalidArgument: the life or the uses are zero or above the limits. ResourceExhausted:
  // kTokensMax usable tokens, or bytes_max. Tokens that are no longer usable are forgotten to make
  // space.
  absl::Status Create(const std::string& id, const KeyHash& secret, const std::string& subject,
                      absl::Duration life, uint32_t uses, absl::Time now);
  // NotFound.
  absl::Status Revoke(const std::string& id);

  // PermissionDenied: the token is unknown (or its secret is wrong), revoked or expired.
  absl::Status CheckToken(const std::string& id, const KeyHash& secret, absl::Time now) const;

  // PermissionDenied: the token is unknown (or its secret is wrong), revoked, expired, used up, or
  // for another subject; or the subject was expelled. AlreadyExists: the subject belongs to another
  // key, or it takes part with a certificate that this book does not know (is_taken).
  // ResourceExhausted: bytes_max.
  absl::Status Redeem(const std::string& id, const KeyHash& secret, const std::string& subject,
                      const KeyHash& key, bool is_taken, absl::Time now);

  // Excludes a worker. Its key loses the name. Tokens that admitted the name admit nobody else,
  // since the expelled worker may hold their remaining uses. Returns the ids of the tokens that
  // this revokes.
  std::vector<std::string> Expel(const std::string& name);
  // Other workers that the tokens of this one have admitted and whose names still belong to the
  // keys that came with them. Sorted by name, `most` at most. Unusable tokens that were forgotten
  // for space are missing here.
  std::vector<std::string> JoinedBeside(const std::string& name, size_t most) const;
  // Lifts an expulsion. by_token: the name belongs to no key until a token admits one, so that
  // certificates from before are worthless. NotFound: the name is not expelled.
  absl::Status Readmit(const std::string& name, bool by_token);

  const std::map<std::string, TokenRecord>& tokens() const { return tokens_; }
  // A subject's owner is the key that a token has admitted. kNoKey: the subject was expelled, and
  // readmitted by token.
  const KnownNames& names() const { return names_; }

  // Bytes with a version and a checksum. DataLoss: the bytes are not a book.
  std::vector<std::byte> Encode() const;
  size_t EncodedBytes() const;  // size of Encode()
  static absl::StatusOr<AdmissionBook> Decode(std::span<const std::byte> bytes);

  bool operator==(const AdmissionBook&) const = default;

 private:
  static bool IsUsable(const TokenRecord& token, absl::Time now);
  void ForgetUseless(absl::Time now);
  // Makes space for so many more bytes, by forgetting unusable tokens if need be.
  absl::Status MakeSpace(size_t bytes, absl::Time now);

  size_t bytes_max_;
  std::map<std::string, TokenRecord> tokens_;  // by id
  KnownNames names_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SECURITY_ADMISSION_BOOK_H_
