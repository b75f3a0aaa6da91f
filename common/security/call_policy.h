#ifndef LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_
#define LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_

#include <optional>
#include <string>
#include <string_view>
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
// Whoever holds a certificate may be any of those that it names: it is refused whole once
// is_expelled says so of one of them.
template <typename IsExpelled>
std::optional<CallRefusal> RefuseIfExpelled(const std::vector<Identity>& named,
                                            const IsExpelled& is_expelled) {
  for (const Identity& identity : named) {
    if (identity.role == Role::kWorker && is_expelled(identity.worker))
      return RefuseExpelled(identity);
  }
  return std::nullopt;
}

// Who holds the certificates that callers show, read and verified once each while they stay the
// same; thread-safe. Follows the authority's file.
class CallerBook {
 public:
  // authority_file: ca.crt.
  static absl::StatusOr<std::unique_ptr<CallerBook>> Open(const std::string& authority_file);
  virtual ~CallerBook() = default;

  // What the certificate says of whoever shows the chain (PEM; "": no certificate, and nobody), or
  // why not.
  struct Caller {
    CertificateInfo certificate;
    std::optional<CallRefusal> refusal;
  };
  virtual Caller Look(const std::string& chain_pem, absl::Time now) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_
