#ifndef LONGWAVE_COMMON_SECURITY_CERTIFICATE_METRIC_H_
#define LONGWAVE_COMMON_SECURITY_CERTIFICATE_METRIC_H_

#include <memory>
#include <string>

#include "common/metrics/metrics.h"

namespace longwave {

// Shows on each page, while the returned object lives, when the certificate in a folder of
// credentials runs out. Null where there is no folder: nothing is secured.
[[nodiscard]] std::unique_ptr<Metrics::Refresher> ShowCertificateExpiry(Metrics* metrics,
                                                                        std::string credentials);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_CERTIFICATE_METRIC_H_
