#ifndef LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_
#define LONGWAVE_COMMON_SECURITY_CALL_POLICY_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
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

// The names of a run's workers and shards, as the coordinator knows them.
struct KnownNames {
  std::set<std::string> expelled;             // names of workers
  std::map<std::string, Fingerprint> owners;  // the key that a subject belongs to, by subject

  bool IsExpelled(const std::string& worker) const { return expelled.contains(worker); }
  // nullopt: nobody owns the subject.
  std::optional<Fingerprint> OwnerOf(const std::string& subject) const;
  bool operator==(const KnownNames&) const = default;
};
// Why a caller with this key may not act in the name, if so.
std::optional<CallRefusal> RefuseName(const KnownNames& names, const Identity& named,
                                      const Fingerprint& key);
// Why the holder of a certificate may act for none of the certificate's names, if so. One expelled
// name makes the whole certificate invalid.
std::optional<CallRefusal> RefuseHolder(const KnownNames& names,
                                        const CertificateInfo& certificate);

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
