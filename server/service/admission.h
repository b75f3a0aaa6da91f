#ifndef LONGWAVE_SERVER_SERVICE_ADMISSION_H_
#define LONGWAVE_SERVER_SERVICE_ADMISSION_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "common/rpc/admission.h"
#include "common/security/certificates.h"
#include "common/security/identity.h"
#include "server/security/admission_book.h"

namespace longwave {

// Who may take part in a coordinator's run: its authority, and the book of tokens and of the
// expelled, kept in a file that is written before anybody hears of what it says. Thread-safe.
class Admission {
 public:
  struct Options {
    RunConfig config;
    std::string credentials;  // folder of the coordinator's own
    std::string authority;    // folder of ca.crt and ca.key
    std::string book_file;    // empty: tokens last as long as this process
    std::string address;      // that the coordinator listens on, for its certificate
  };
  // Makes what is not there: the authority, unless ca.crt is there without ca.key; with it the
  // coordinator's own certificate, and an operator's in <credentials>/operator. FailedPrecondition:
  // what is there does not fit.
  static absl::StatusOr<std::unique_ptr<Admission>> Open(const Options& options);

  // FailedPrecondition without the authority's key.
  absl::StatusOr<std::string> GetAuthority() const;
  // is_taken: the name takes part in the run already.
  absl::StatusOr<JoinAnswer> Join(const JoinWish& wish, bool is_taken,
                                  std::optional<Manifest> manifest);
  absl::StatusOr<std::string> RenewCertificate(const std::vector<Identity>& caller,
                                               const std::string& request);
  absl::StatusOr<NewToken> CreateToken(const TokenWish& wish);
  absl::StatusOr<TokenList> ListTokens() const;
  absl::Status RevokeToken(const std::string& id);
  absl::Status Expel(const std::string& worker, bool undo);

  // PermissionDenied: all of them are workers that were expelled.
  absl::Status Admit(const std::vector<Identity>& caller) const;

 private:
  Admission(const Options& options, std::unique_ptr<Authority> authority, AdmissionBook book)
      : options_(options), authority_(std::move(authority)), book_(std::move(book)) {}

  absl::Status CheckAuthority() const;
  // Makes `next` the book, once it is written. With mutex_.
  absl::Status Keep(AdmissionBook next);
  Validity NewValidity() const;

  const Options options_;
  const std::unique_ptr<Authority> authority_;  // null: its key is elsewhere
  mutable std::mutex mutex_;
  AdmissionBook book_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_ADMISSION_H_
