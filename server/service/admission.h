#ifndef LONGWAVE_SERVER_SERVICE_ADMISSION_H_
#define LONGWAVE_SERVER_SERVICE_ADMISSION_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/random_word.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/layout/manifest.h"
#include "common/rpc/admission_records.h"
#include "common/security/call_policy.h"
#include "common/security/certificates.h"
#include "common/security/identity.h"
#include "server/security/admission_book.h"
#include "server/service/followed_authority.h"
#include "server/store/file_system.h"
#include "server/store/posix_file_system.h"

namespace longwave {

// Admission to a coordinator's run: the certificate authority, and the book of tokens and expelled
// names. The book's file is written before any answer depends on it. Thread-safe.
class Admission {
 public:
  struct Options {
    RunConfig config;
    std::string credentials;  // the coordinator's own folder
    std::string authority;    // folder of ca.crt and ca.key
    std::string book_folder;  // folder of the book's file; empty: tokens end with this process
    std::string address;      // the coordinator's listening address, for its certificate
    FollowedAuthority::Clock clock = MonotonicNow;  // times the checks for changed files
  };
  // Creates missing files: the authority, unless ca.crt exists without ca.key, and with an
  // authority the coordinator's own certificate and an operator's in <credentials>/operator.
  // FailedPrecondition: existing files do not fit.
  static absl::StatusOr<std::unique_ptr<Admission>> Open(const Options& options);

  // GetAuthority, Join, RenewCertificate, CreateToken: FailedPrecondition without the authority's
  // key, or if the coordinator's own ca.crt does not trust the key's signatures (any more).
  absl::StatusOr<std::string> GetAuthority() const;
  // Whether the token has admitted or may admit a subject. Runs before anything else of a request
  // is checked.
  absl::Status CheckToken(const std::string& token) const;
  // is_taken: the name already takes part in the run.
  absl::StatusOr<JoinAnswer> Join(const JoinWish& wish, bool is_taken,
                                  std::optional<Manifest> manifest);
  // Issues a certificate with the names, hosts and key of the caller's. PermissionDenied: the
  // request is for another key, or the certificate is an operator's or a coordinator's.
  absl::StatusOr<std::string> RenewCertificate(const CertificateInfo& caller,
                                               const std::string& request);
  absl::StatusOr<NewToken> CreateToken(const TokenWish& wish);
  absl::StatusOr<TokenList> ListTokens() const;
  absl::Status RevokeToken(const std::string& id);
  // Returns the tokens that this revokes, and the other names that they admitted.
  // FailedPrecondition: a certificate with the worker's name, which would be refused as a whole,
  // also names other workers, and `whole` is false.
  absl::StatusOr<Expulsion> Expel(const std::string& worker, bool undo, bool whole = false);

  // A new certificate for one of the coordinator's own folders, with the hosts of its present one.
  absl::StatusOr<std::string> RenewOwn(const Identity& identity, const std::string& folder,
                                       const std::string& request) const;

  // Why the holder of the certificate may act for none of its names: one of them was expelled, or
  // tokens have given all of them to other keys. Nothing if the holder may act.
  std::optional<CallRefusal> Admit(const CertificateInfo& caller);
  // PermissionDenied: the worker was expelled.
  absl::Status CheckWorker(const std::string& name) const;
  // Names of workers.
  std::set<std::string> Expelled() const;
  // The names for shards to refuse, unless `known_version` is up to date.
  std::optional<CallerNames> NewerNames(uint64_t known_version) const;

 private:
  Admission(const Options& options, std::unique_ptr<FollowedAuthority> authority,
            AdmissionBook book)
      : options_(options), authority_(std::move(authority)), book_(std::move(book)) {}

  // The authority if it can sign.
  absl::StatusOr<std::shared_ptr<const Authority>> Signer() const;
  // Workers that share a presented certificate with this one.
  std::vector<std::string> NamedBeside(const std::string& worker) const;
  // Replaces the book after writing it. The caller holds changing_.
  absl::Status Keep(AdmissionBook next);
  Validity NewValidity() const;

  const Options options_;
  const std::unique_ptr<FileSystem> files_ = MakePosixFileSystem();
  const std::unique_ptr<FollowedAuthority> authority_;
  // Held by a call from its look at the book until the change is on the disk, which may hang;
  // locked before mutex_, which every caller of the coordinator waits for.
  std::mutex changing_;
  mutable std::mutex mutex_;
  AdmissionBook book_;  // changes under both
  // Worker names in presented certificates with several of them.
  std::map<Fingerprint, std::vector<std::string>> shared_;
  // Version of the names in book_; differs between processes.
  uint64_t names_version_ = RandomWord();
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_ADMISSION_H_
