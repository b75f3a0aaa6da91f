#include "common/security/certificate_metric.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "common/security/credentials.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

TEST(ShowCertificateExpiry, IsThatOfTheFileThatStandsThere) {
  const TestFolder folder;
  Metrics metrics(MetricPart::kWorker);
  const Gauge& expiry = metrics.gauge("longwave_certificate_expiry_timestamp_seconds");
  const Gauge& lifetime = metrics.gauge("longwave_certificate_lifetime_seconds");
  const auto refresher = ShowCertificateExpiry(&metrics, folder.path());
  metrics.Page();
  EXPECT_FALSE(expiry.is_set());  // no file yet

  const absl::Time now = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
  const auto authority = Authority::Make("test", now);
  ASSERT_TRUE(authority.ok()) << authority.status();
  for (const absl::Duration life : {absl::Hours(1), absl::Hours(9)}) {
    const auto credentials =
        MakeCredentials(**authority, {WorkerIdentity("w")}, {}, {.from = now, .life = life});
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    ASSERT_TRUE(WriteCredentials(folder.path(), *credentials).ok());
    metrics.Page();
    EXPECT_EQ(expiry.value(), static_cast<double>(absl::ToUnixSeconds(now + life)));
    // The certificate begins somewhat before its creation, for clocks that are behind.
    EXPECT_GE(lifetime.value(), absl::ToDoubleSeconds(life));
    EXPECT_LE(lifetime.value(), absl::ToDoubleSeconds(2 * life));
  }
}

TEST(ShowCertificateExpiry, IsNothingWhereNothingIsSecured) {
  Metrics metrics(MetricPart::kWorker);
  EXPECT_EQ(ShowCertificateExpiry(&metrics, ""), nullptr);
}

}  // namespace
}  // namespace longwave
