#include "common/security/certificate_metric.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"

namespace longwave {

std::unique_ptr<Metrics::Refresher> ShowCertificateExpiry(Metrics* metrics,
                                                          std::string credentials) {
  if (credentials.empty()) return nullptr;
  Gauge& expiry = metrics->gauge("longwave_certificate_expiry_timestamp_seconds");
  Gauge& lifetime = metrics->gauge("longwave_certificate_lifetime_seconds");
  // Read for each page, since a renewal replaces the file.
  return metrics->OnPage(
      [&expiry, &lifetime, file = absl::StrCat(credentials, "/", kCertificateFile)] {
        const absl::StatusOr<std::string> pem = ReadTextFile(file);
        const absl::StatusOr<CertificateInfo> certificate =
            pem.ok() ? ReadCertificate(*pem) : pem.status();
        if (!certificate.ok()) {
          lifetime.Clear();
          return expiry.Clear();
        }
        lifetime.Set(absl::ToDoubleSeconds(certificate->not_after - certificate->not_before));
        expiry.Set(absl::ToDoubleSeconds(certificate->not_after - absl::UnixEpoch()));
      });
}

}  // namespace longwave
