#ifndef LONGWAVE_SERVER_SERVICE_ADMISSION_H_
#define LONGWAVE_SERVER_SERVICE_ADMISSION_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/random_word.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "common/rpc/admission.h"
#include "common/security/call_policy.h"
#include "common/security/certificates.h"
#include "common/security/identity.h"
#include "common/wire/control.h"
#include "server/security/admission_book.h"
#include "server/service/followed_authority.h"
#include "server/store/file_system.h"
#include "server/store/posix_file_system.h"

namespace longwave {

// Who may take part in a coordinator's run: its authority, and the book of tokens and of the
// expelled, kept in a file that is written before anybody hears of what it says. Thread-safe.
class Admission {
 public:
  struct Options {
    RunConfig config;
    std::string credentials;  // folder of the coordinator's own
    std::string authority;    // folder of ca.crt and ca.key
    std::string book_folder;  // of the book's file; empty: tokens last as long as this process
    std::string address;      // that the coordinator listens on, for its certificate
    FollowedAuthority::Clock clock = MonotonicNow;  // by which its files are looked at
  };
  // Makes what is not there: the authority, unless ca.crt is there without ca.key; with it the
  // coordinator's own certificate, and an operator's in <credentials>/operator. FailedPrecondition:
  // what is there does not fit.
  static absl::StatusOr<std::unique_ptr<Admission>> Open(const Options& options);

  // GetAuthority, Join, RenewCertificate, CreateToken: FailedPrecondition without the authority's
  // key, or where the coordinator's own ca.crt does not trust (any more) what it signs.
  absl::StatusOr<std::string> GetAuthority() const;
  // Whether the token has let somebody in or still may, before anything else of a wish is looked
  // at.
  absl::Status CheckToken(const std::string& token) const;
  // is_taken: the name takes part in the run already.
  absl::StatusOr<JoinAnswer> Join(const JoinWish& wish, bool is_taken,
                                  std::optional<Manifest> manifest);
  // For the names and hosts of the caller's certificate, and its key. PermissionDenied: the request
  // is another key's, or the certificate is an operator's or a coordinator's.
  absl::StatusOr<std::string> RenewCertificate(const CertificateInfo& caller,
                                               const std::string& request);
  absl::StatusOr<NewToken> CreateToken(const TokenWish& wish);
  absl::StatusOr<TokenList> ListTokens() const;
  absl::Status RevokeToken(const std::string& id);
  // The tokens that this revokes, and whom else they let in. FailedPrecondition: a certificate that
  // the worker's name is in, and would be refused whole, names other workers too, and that was not
  // wished for by `whole`.
  absl::StatusOr<Expulsion> Expel(const std::string& worker, bool undo, bool whole = false);

  // A new certificate for one of the coordinator's own folders, with that one's hosts.
  absl::StatusOr<std::string> RenewOwn(const Identity& identity, const std::string& folder,
                                       const std::string& request) const;

  // Why the holder of the certificate may act for none of those that it names, if so: one of them
  // was expelled, or a token has given all of them to other keys.
  std::optional<CallRefusal> Admit(const CertificateInfo& caller);
  // PermissionDenied: the worker was expelled.
  absl::Status CheckWorker(const std::string& name) const;
  // By what shards refuse callers too, unless this is the version that is known.
  std::optional<CallerNames> NewerNames(uint64_t known_version) const;

 private:
  Admission(const Options& options, std::unique_ptr<FollowedAuthority> authority,
            AdmissionBook book)
      : options_(options), authority_(std::move(authority)), book_(std::move(book)) {}

  // The authority, if it may sign.
  absl::StatusOr<std::shared_ptr<const Authority>> Signer() const;
  // Workers that certificates which were shown name beside this one. With mutex_.
  std::vector<std::string> NamedBeside(const std::string& worker) const;
  // Makes `next` the book, once it is written. With mutex_.
  absl::Status Keep(AdmissionBook next);
  Validity NewValidity() const;

  const Options options_;
  const std::unique_ptr<FileSystem> files_ = MakePosixFileSystem();
  const std::unique_ptr<FollowedAuthority> authority_;
  mutable std::mutex mutex_;
  AdmissionBook book_;
  // The workers that are named by certificates of several, of those that were shown.
  std::map<Fingerprint, std::vector<std::string>> shared_;
  uint64_t names_version_ = RandomWord();  // of those in book_; another in each process
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_ADMISSION_H_
