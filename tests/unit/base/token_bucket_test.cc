#include "common/base/token_bucket.h"

#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "common/base/rng.h"
#include "gtest/gtest.h"

namespace longwave {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

TEST(TokenBucket, WithoutARateNothingWaits) {
  TokenBucket bucket;
  EXPECT_EQ(bucket.rate(), 0u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bucket.Charge(std::numeric_limits<uint64_t>::max(), kStart), absl::ZeroDuration());
  }
  EXPECT_EQ(bucket.WaitAt(kStart), absl::ZeroDuration());
}

TEST(TokenBucket, TheBurstGoesAtOnceAndTheDebtIsPaidAtTheRate) {
  TokenBucket bucket(1000, 500);
  EXPECT_EQ(bucket.Charge(300, kStart), absl::ZeroDuration());
  EXPECT_EQ(bucket.Charge(200, kStart), absl::ZeroDuration());
  EXPECT_EQ(bucket.Charge(1000, kStart), absl::ZeroDuration()) << "empty, but nothing is owed";
  EXPECT_EQ(bucket.WaitAt(kStart), absl::Seconds(1));
  EXPECT_EQ(bucket.WaitAt(kStart + absl::Milliseconds(400)), absl::Milliseconds(600));
  EXPECT_EQ(bucket.WaitAt(kStart + absl::Seconds(1)), absl::ZeroDuration());
}

TEST(TokenBucket, WaitsOfTakesQueueUp) {
  TokenBucket bucket(1000, 0);
  EXPECT_EQ(bucket.Charge(100, kStart), absl::ZeroDuration());
  EXPECT_EQ(bucket.Charge(100, kStart), absl::Milliseconds(100));
  EXPECT_EQ(bucket.Charge(100, kStart), absl::Milliseconds(200));
}

TEST(TokenBucket, LongRunRateIsExactWhateverTheSizes) {
  // Rates at which no byte lasts a whole number of nanoseconds, over many uneven frames.
  for (const uint64_t rate :
       {uint64_t{3}, uint64_t{7'777'777}, uint64_t{1'250'000'000}, (uint64_t{1} << 40) + 1}) {
    TokenBucket bucket(rate, 0);
    Rng rng(rate);
    uint64_t taken = 0;
    for (int i = 0; i < 10'000; ++i) {
      const uint64_t bytes = rng.Below(100'000);
      bucket.Charge(bytes, kStart);
      taken += bytes;
    }
    // Below 10^18: fits.
    EXPECT_EQ(bucket.WaitAt(kStart),
              absl::Nanoseconds(static_cast<int64_t>(taken * 1'000'000'000 / rate)));
  }
}

TEST(TokenBucket, NeverStartsMoreThanRateAndBurstAndOneFrame) {
  constexpr uint64_t kRate = 1'000'000;
  constexpr uint64_t kBurst = 50'000;
  constexpr uint64_t kFrame = 10'000;
  TokenBucket bucket(kRate, kBurst);
  Rng rng(1);
  absl::Time now = kStart;
  uint64_t started = 0;
  for (int i = 0; i < 5'000; ++i) {
    const uint64_t bytes = 1 + rng.Below(kFrame);
    // Sometimes idle, sometimes as soon as it may.
    if (rng.Below(20) == 0) now += absl::Milliseconds(static_cast<int64_t>(rng.Below(200)));
    now += bucket.WaitAt(now);
    EXPECT_EQ(bucket.Charge(bytes, now), absl::ZeroDuration());
    started += bytes;
    const double allowed = absl::ToDoubleSeconds(now - kStart) * kRate + kBurst + kFrame;
    ASSERT_LE(static_cast<double>(started), allowed + 1);
  }
}

TEST(TokenBucket, IdleTimeSavesUpNoMoreThanTheBurst) {
  TokenBucket bucket(1000, 500);
  bucket.Charge(500, kStart);
  const absl::Time later = kStart + absl::Hours(24);
  EXPECT_EQ(bucket.Charge(500, later), absl::ZeroDuration());
  EXPECT_EQ(bucket.Charge(1, later), absl::ZeroDuration());
  EXPECT_EQ(bucket.WaitAt(later), absl::Milliseconds(1));
}

TEST(TokenBucket, AClockThatJumpsBackNeitherForgivesNorAdds) {
  TokenBucket bucket(1000, 0);
  bucket.Charge(2000, kStart);
  const absl::Time before = kStart - absl::Hours(1);
  EXPECT_EQ(bucket.WaitAt(before), absl::Seconds(2));
  EXPECT_EQ(bucket.Charge(1000, before), absl::Seconds(2));
  EXPECT_EQ(bucket.WaitAt(before + absl::Seconds(1)), absl::Seconds(2));
  EXPECT_EQ(bucket.WaitAt(before + absl::Seconds(3)), absl::ZeroDuration());
}

TEST(TokenBucket, HugeAmountsWaitLongInsteadOfWrapping) {
  TokenBucket bucket(1, std::numeric_limits<uint64_t>::max());
  bucket.Charge(std::numeric_limits<uint64_t>::max(), kStart);
  bucket.Charge(std::numeric_limits<uint64_t>::max(), kStart);
  EXPECT_GE(bucket.WaitAt(kStart), absl::Hours(24 * 365));
}

}  // namespace
}  // namespace longwave
