#ifndef LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_
#define LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/log/refusals.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"
#include "common/security/identity.h"

namespace longwave {

// The rights that a call needs.
enum class CallKind : uint8_t {
  kAnyone,    // no certificate: for processes that join
  kMember,    // any certificate of the run: the status, the caller's own renewal
  kSubject,   // one process alone: its registration, its heartbeats
  kOperator,  // an operator: admission, stopping the run
};

struct CallRights {
  CallKind kind = CallKind::kOperator;
  Identity subject;  // for kSubject
};

// A rejected call.
struct CallRefusal {
  Refusal reason;
  absl::Status status;
};

// Whether the holder of a certificate with these identities may make the call `name`. The
// coordinator has an operator's rights too.
std::optional<CallRefusal> CheckCall(std::string_view name, const CallRights& rights,
                                     const std::vector<Identity>& caller);

// The refusal of an expelled caller.
CallRefusal RefuseExpelled(const Identity& worker);
// The refusal of a name that belongs to another key, or to kNoKey.
CallRefusal RefuseOtherKey(const Identity& named, const Fingerprint& owner);

// Why a caller with this key may not act in the name, if so. names: IsExpelled(name of a worker),
// and OwnerOf(subject), the key that owns the subject, if any.
template <typename Names>
std::optional<CallRefusal> RefuseName(const Names& names, const Identity& named,
                                      const Fingerprint& key) {
  if (named.role != Role::kWorker && named.role != Role::kShard) return std::nullopt;
  if (named.role == Role::kWorker && names.IsExpelled(named.worker)) return RefuseExpelled(named);
  const std::optional<Fingerprint> owner = names.OwnerOf(SubjectOf(named));
  if (!owner || *owner == key) return std::nullopt;
  return RefuseOtherKey(named, *owner);
}
// Why the holder of a certificate may act for none of the certificate's names, if so. One expelled
// name makes the whole certificate invalid.
template <typename Names>
std::optional<CallRefusal> RefuseHolder(const Names& names, const CertificateInfo& certificate) {
  for (const Identity& named : certificate.identities) {
    if (named.role == Role::kWorker && names.IsExpelled(named.worker)) return RefuseExpelled(named);
  }
  std::optional<CallRefusal> refusal;
  for (const Identity& named : certificate.identities) {
    std::optional<CallRefusal> why = RefuseName(names, named, certificate.key_fingerprint);
    if (!why) return std::nullopt;
    if (!refusal) refusal = std::move(why);
  }
  return refusal;
}

// Verifies callers' certificates, each once while it stays the same. Thread-safe. Rereads the
// authority's file when it changes.
class CallerBook {
 public:
  // authority_file: ca.crt.
  static absl::StatusOr<std::unique_ptr<CallerBook>> Open(const std::string& authority_file);

  // The certificate's content (PEM; "": no certificate), and the refusal if it is invalid. chain:
  // the certificate and any others that the caller sent. The cache's key is the certificate alone,
  // since a caller can send other chains with each connection.
  struct Caller {
    CertificateInfo certificate;
    std::optional<CallRefusal> refusal;
  };
  Caller Look(const std::string& certificate, const std::string& chain, absl::Time now);

 private:
  explicit CallerBook(std::string file) : file_(std::move(file)) {}
  absl::Status Reload();

  const std::string file_;
  std::mutex mutex_;
  std::unique_ptr<Trust> trust_;
  FileStamp stamp_;
  absl::Time looked_ = absl::InfinitePast();
  std::map<Fingerprint, CertificateInfo> known_;  // by the certificate's text
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_
