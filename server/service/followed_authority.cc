#include "server/service/followed_authority.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<FollowedAuthority>> FollowedAuthority::Open(
    const std::string& folder, const std::string& credentials, Clock clock) {
  std::unique_ptr<FollowedAuthority> followed(new FollowedAuthority(folder, std::move(clock)));
  // Before the files are read, so that a change in between is followed.
  followed->stamps_ = followed->Look();
  const bool has_key = FileIsThere(FileIn(folder, kAuthorityKeyFile));
  if (has_key || !(FileIsThere(FileIn(folder, kAuthorityFile)) ||
                   FileIsThere(FileIn(credentials, kAuthorityFile)))) {
    LONGWAVE_ASSIGN_OR_RETURN(followed->authority_, LoadOrMakeAuthority(folder, absl::Now()));
    if (!has_key) {
      followed->stamps_ = followed->Look();
      Log(LogLevel::kInfo, "made the run's authority in ", folder);
    }
  }
  return followed;
}

FollowedAuthority::Stamps FollowedAuthority::Look() const {
  return {StampOf(FileIn(folder_, kAuthorityFile)), StampOf(FileIn(folder_, kAuthorityKeyFile))};
}

std::shared_ptr<const Authority> FollowedAuthority::Get() {
  const std::lock_guard lock(mutex_);
  Follow();
  return authority_;
}

void FollowedAuthority::Follow() {
  const absl::Time now = clock_();
  if (now - looked_ < kLookInterval) return;
  looked_ = now;
  const Stamps stamps = Look();
  if (stamps == stamps_ || stamps.key == FileStamp()) return;
  stamps_ = stamps;  // the other file may still be written, and changes them again
  absl::StatusOr<std::unique_ptr<Authority>> read = LoadAuthority(folder_);
  if (!read.ok()) {
    return Log(LogLevel::kWarning,
               "the authority's files have changed and cannot be used, the one that "
               "was known goes on: ",
               read.status().message());
  }
  if (authority_ != nullptr && authority_->info().fingerprint == (*read)->info().fingerprint)
    return;
  authority_ = *std::move(read);
  Log(LogLevel::kInfo, "certificates are signed by the authority ",
      Hex(std::span(authority_->info().fingerprint).first(6)), " of ", folder_, " from now on");
}

}  // namespace longwave
