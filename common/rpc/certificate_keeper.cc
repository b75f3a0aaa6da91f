#include "common/rpc/certificate_keeper.h"

#include <unistd.h>

#include <algorithm>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/base/termination.h"
#include "common/log/log.h"
#include "common/security/credentials.h"

namespace longwave {
namespace {

// Bounds between two checks, since the clock may be set and the file exchanged meanwhile.
constexpr absl::Duration kLookMax = absl::Hours(1);
constexpr absl::Duration kLookMin = absl::Milliseconds(500);

class ThreadKeeper final : public CertificateKeeper {
 public:
  ThreadKeeper(std::string folder, Renew renew)
      : folder_(std::move(folder)), renew_(std::move(renew)) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) WaitFor(std::clamp(Look(), kLookMin, kLookMax), stop);
    });
  }

 private:
  // Renews the certificate if due. Returns the time until the next check.
  absl::Duration Look() {
    const std::string path = absl::StrCat(folder_, "/", kCertificateFile);
    const absl::StatusOr<Credentials> credentials = ReadCredentials(folder_);
    if (!credentials.ok()) return kLookMax / 60;
    const absl::StatusOr<CertificateInfo> info = ReadCertificate(credentials->certificate);
    if (!info.ok()) return kLookMax / 60;
    const absl::Time now = absl::Now();
    // A certificate that is not valid yet was issued by a wrong clock.
    if (now >= info->not_before && now < RenewalDue(*info)) return RenewalDue(*info) - now;
    const absl::Duration seldom = (info->not_after - info->not_before) / 20;
    if (access(folder_.c_str(), W_OK) != 0) return seldom;
    const absl::Status renewed = RenewNow(*credentials, path);
    if (renewed.ok()) {
      said_ = false;
      retry_ = kLookMin;
      return retry_;
    }
    if (!std::exchange(said_, true)) {
      Log(LogLevel::kWarning, "the certificate in ", folder_, " is good until ",
          absl::FormatTime(absl::RFC3339_sec, info->not_after, absl::UTCTimeZone()),
          " and could not be renewed, trying again: ", renewed.message());
    }
    return std::min(seldom, std::exchange(retry_, 2 * retry_));
  }

  absl::Status RenewNow(const Credentials& credentials, const std::string& path) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::string request, MakeRequest(credentials.key));
    LONGWAVE_ASSIGN_OR_RETURN(const std::string certificate, renew_(request));
    LONGWAVE_RETURN_IF_ERROR(CheckPair(certificate, credentials.key));
    // Another process may have exchanged the folder's files since.
    LONGWAVE_ASSIGN_OR_RETURN(const Credentials now, ReadCredentials(folder_));
    if (now.key != credentials.key || now.certificate != credentials.certificate) {
      Log(LogLevel::kInfo, "the certificate was exchanged while it was being renewed, and stays");
      return absl::OkStatus();
    }
    // An untrusted certificate is worse than one that will expire.
    LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Trust> trust, Trust::Create(now.authority));
    const absl::StatusOr<CertificateInfo> info = trust->Verify(certificate, absl::Now());
    if (!info.ok()) {
      return FailedPrecondition("what the coordinator has issued ", info.status().message(),
                                ", so that the old one stays");
    }
    LONGWAVE_RETURN_IF_ERROR(WriteFile(path, certificate, kPublicFile));
    Log(LogLevel::kInfo, "the certificate was renewed, good until ",
        absl::FormatTime(absl::RFC3339_sec, info->not_after, absl::UTCTimeZone()));
    return absl::OkStatus();
  }

  const std::string folder_;
  const Renew renew_;
  // The thread's.
  bool said_ = false;
  absl::Duration retry_ =
      kLookMin;          // doubles: a coordinator that is just being started answers soon
  std::jthread thread_;  // last, since it uses the members above
};

}  // namespace

std::unique_ptr<CertificateKeeper> CertificateKeeper::Start(std::string folder, Renew renew) {
  return std::make_unique<ThreadKeeper>(std::move(folder), std::move(renew));
}

}  // namespace longwave
