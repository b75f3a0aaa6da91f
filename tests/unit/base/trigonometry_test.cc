#include "common/base/trigonometry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>

namespace longwave {
namespace {

// Tolerance in units of the result's last place; the reference also rounds its argument and result.
constexpr double kUlpsMax = 3;

double Ulps(double got, long double wanted) {
  const auto rounded = static_cast<double>(std::fabs(wanted));
  const double ulp = std::nextafter(rounded, 2.0) - rounded;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - wanted)) / ulp;
}

TEST(CosPiAndSinPi, AreTheMathsLibrarysToAFewUlps) {
  for (const uint64_t q : {1u, 2u, 3u, 4u, 7u, 12u, 64u, 105u, 256u, 1000u, 4095u, 16384u}) {
    // To π/4, where the reference's own argument is precise; the next test reaches the rest.
    for (uint64_t p = 0; 4 * p <= q; ++p) {
      const long double angle = std::numbers::pi_v<long double> * p / q;
      ASSERT_LE(Ulps(CosPi(p, q), std::cos(angle)), kUlpsMax) << p << "/" << q;
      if (p > 0) {
        ASSERT_LE(Ulps(SinPi(p, q), std::sin(angle)), kUlpsMax) << p << "/" << q;
      }
    }
  }
}

TEST(CosPiAndSinPi, FollowTheCircleToTheBit) {
  for (const uint64_t q : {2u, 3u, 8u, 105u, 4096u}) {
    for (uint64_t p = 0; p <= q; ++p) {
      ASSERT_EQ(CosPi(2 * q - p, q), CosPi(p, q));
      ASSERT_EQ(CosPi(2 * q + p, q), CosPi(p, q));
      ASSERT_EQ(CosPi(q - p, q), -CosPi(p, q));
      ASSERT_EQ(SinPi(q - p, q), SinPi(p, q));
      ASSERT_EQ(SinPi(2 * q + p, q), SinPi(p, q));
      if (p > 0 && p < q) {
        ASSERT_EQ(SinPi(q + p, q), -SinPi(p, q));
      }
      // A quarter ahead. Near π/4 either series may serve.
      if (q % 2 == 0) {
        ASSERT_NEAR(SinPi(p + q / 2, q), CosPi(p, q), 0x1p-52);
      }
    }
  }
}

TEST(CosPiAndSinPi, AreExactOnTheAxes) {
  for (const uint64_t q : {2u, 10u, 4096u}) {
    EXPECT_EQ(CosPi(0, q), 1);
    EXPECT_EQ(CosPi(q / 2, q), 0);
    EXPECT_EQ(CosPi(q, q), -1);
    EXPECT_EQ(SinPi(0, q), 0);
    EXPECT_EQ(SinPi(q / 2, q), 1);
    EXPECT_EQ(SinPi(q, q), 0);
  }
}

TEST(SinHalfPi, IsTheMathsLibrarysToAFewUlps) {
  EXPECT_EQ(SinHalfPi(0), 0);
  EXPECT_EQ(SinHalfPi(1), 1);
  for (int i = 1; i <= 1000; ++i) {
    const double x = i / 1000.0;
    ASSERT_LE(Ulps(SinHalfPi(x), std::sin(std::numbers::pi_v<long double> * x / 2)), kUlpsMax) << x;
  }
}

}  // namespace
}  // namespace longwave
