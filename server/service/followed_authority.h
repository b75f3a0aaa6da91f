#ifndef LONGWAVE_SERVER_SERVICE_FOLLOWED_AUTHORITY_H_
#define LONGWAVE_SERVER_SERVICE_FOLLOWED_AUTHORITY_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"

namespace longwave {

// The authority that signs a run's certificates: ca.crt and ca.key of a folder, reloaded after
// changes. Thread-safe.
class FollowedAuthority {
 public:
  // Creates a new authority, unless `folder` has ca.key, or `folder` or `credentials` have ca.crt
  // (the key is then elsewhere). FailedPrecondition: existing files do not fit. clock: as
  // MonotonicNow.
  using Clock = std::function<absl::Time()>;
  static absl::StatusOr<std::unique_ptr<FollowedAuthority>> Open(const std::string& folder,
                                                                 const std::string& credentials,
                                                                 Clock clock = MonotonicNow);

  // Null: there is no key. While the files are unusable, half replaced or missing, the known
  // authority stays.
  std::shared_ptr<const Authority> Get();

 private:
  struct Stamps {
    FileStamp certificate;
    FileStamp key;
    bool operator==(const Stamps&) const = default;
  };

  FollowedAuthority(std::string folder, Clock clock)
      : folder_(std::move(folder)), clock_(std::move(clock)) {}
  Stamps Look() const;
  void Follow();  // the caller holds mutex_

  const std::string folder_;
  const Clock clock_;
  std::mutex mutex_;
  std::shared_ptr<const Authority> authority_;
  Stamps stamps_;  // of the last files read, usable or not
  absl::Time looked_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_FOLLOWED_AUTHORITY_H_
