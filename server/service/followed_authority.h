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

// The authority that signs a run's certificates: ca.crt and ca.key of a folder, read again when
// they change, as all that is trusted is. Thread-safe.
class FollowedAuthority {
 public:
  // Makes a new one, unless there is ca.key in `folder`, or ca.crt there or in `credentials` (then
  // the key is elsewhere). FailedPrecondition: what is there does not fit. clock: as MonotonicNow.
  using Clock = std::function<absl::Time()>;
  static absl::StatusOr<std::unique_ptr<FollowedAuthority>> Open(const std::string& folder,
                                                                 const std::string& credentials,
                                                                 Clock clock = MonotonicNow);

  // Null: its key is not there. Files that cannot be used, half exchanged or gone for a moment,
  // leave the one that is known.
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
  void Follow();  // with mutex_

  const std::string folder_;
  const Clock clock_;
  std::mutex mutex_;
  std::shared_ptr<const Authority> authority_;
  Stamps stamps_;  // of what was read last, usable or not
  absl::Time looked_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_FOLLOWED_AUTHORITY_H_
