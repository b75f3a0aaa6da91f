#include "common/security/certificate_metric.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"

namespace longwave {

std::unique_ptr<Metrics::Refresher> ShowCertificateExpiry(Metrics* metrics,
                                                          std::string credentials) {
  if (credentials.empty()) return nullptr;
  Gauge& expiry = metrics->gauge("longwave_certificate_expiry_timestamp_seconds");
  // It is renewed in place: what counts is what stands there now.
  return metrics->OnPage([&expiry, file = absl::StrCat(credentials, "/", kCertificateFile)] {
    const absl::StatusOr<std::string> pem = ReadTextFile(file);
    const absl::StatusOr<CertificateInfo> certificate =
        pem.ok() ? ReadCertificate(*pem) : pem.status();
    if (!certificate.ok()) return expiry.Clear();
    expiry.Set(absl::ToDoubleSeconds(certificate->not_after - absl::UnixEpoch()));
  });
}

}  // namespace longwave
