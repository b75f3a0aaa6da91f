#ifndef LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_
#define LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/security/certificates.h"
#include "common/security/identity.h"
#include "common/security/refusals.h"

namespace longwave {

// What a call does, as far as its caller's rights go.
enum class CallKind : uint8_t {
  kAnyone,    // needs no certificate: who wants to join
  kMember,    // anybody of the run: the status, one's own certificate
  kSubject,   // one process alone: its registration, its heartbeats
  kOperator,  // to change who takes part, to stop the run
};

struct CallRights {
  CallKind kind = CallKind::kOperator;
  Identity subject;  // of kSubject
};

// Why a call is refused.
struct CallRefusal {
  Refusal reason;
  absl::Status status;
};

// Whether the holder of a certificate with these identities may make the call `name`. The
// coordinator may do what an operator may.
std::optional<CallRefusal> CheckCall(std::string_view name, const CallRights& rights,
                                     const std::vector<Identity>& caller);

// Of a caller that was expelled.
CallRefusal RefuseExpelled(const Identity& worker);
// Of a name that belongs to another key, or to kNoKey.
CallRefusal RefuseOtherKey(const Identity& named, const Fingerprint& owner);

// Why whoever has this key may not act in the name, if so. names: IsExpelled(name of a worker) and
// OwnerOf(subject), the key that it belongs to, if any.
template <typename Names>
std::optional<CallRefusal> RefuseName(const Names& names, const Identity& named,
                                      const Fingerprint& key) {
  if (named.role != Role::kWorker && named.role != Role::kShard) return std::nullopt;
  if (named.role == Role::kWorker && names.IsExpelled(named.worker)) return RefuseExpelled(named);
  const std::optional<Fingerprint> owner = names.OwnerOf(SubjectOf(named));
  if (!owner || *owner == key) return std::nullopt;
  return RefuseOtherKey(named, *owner);
}
// Why the holder of a certificate may act for none of those that it names, if so. It may be any of
// them: it is refused whole once one of them is expelled.
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

// Who holds the certificates that callers show, read and verified once each while they stay the
// same; thread-safe. Follows the authority's file.
class CallerBook {
 public:
  // authority_file: ca.crt.
  static absl::StatusOr<std::unique_ptr<CallerBook>> Open(const std::string& authority_file);
  virtual ~CallerBook() = default;

  // What the certificate says of whoever shows it (PEM; "": no certificate, and nobody), or why
  // not. chain: it, and what the caller has put behind it. What was verified once is known by the
  // certificate alone: a caller may put whatever it likes behind it, anew with each connection.
  struct Caller {
    CertificateInfo certificate;
    std::optional<CallRefusal> refusal;
  };
  virtual Caller Look(const std::string& certificate, const std::string& chain, absl::Time now) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_
