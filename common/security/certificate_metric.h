#ifndef LONGWAVE_COMMON_SECURITY_CERTIFICATE_METRIC_H_
#define LONGWAVE_COMMON_SECURITY_CERTIFICATE_METRIC_H_

#include <memory>
#include <string>

#include "common/metrics/metrics.h"

namespace longwave {

// Adds expiry and lifetime of the certificate in a folder of credentials to each page, while the
// returned object lives. Null without a folder: nothing is secured.
[[nodiscard]] std::unique_ptr<Metrics::Refresher> ShowCertificateExpiry(Metrics* metrics,
                                                                        std::string credentials);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_CERTIFICATE_METRIC_H_
