#include "common/wire/elias_fano.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "common/base/rng.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;

// k of n at random, by taking each index with the chance that is left.
std::vector<uint16_t> RandomIndices(uint32_t n, uint32_t k, Rng& rng) {
  std::vector<uint16_t> indices;
  for (uint32_t i = 0; i < n; ++i) {
    if (rng.Below(n - i) < k - indices.size()) indices.push_back(static_cast<uint16_t>(i));
  }
  return indices;
}

std::vector<std::byte> Encode(uint32_t n, const std::vector<uint16_t>& indices) {
  std::vector<std::byte> bytes(EliasFanoBytes(n, static_cast<uint32_t>(indices.size())),
                               std::byte{0xff});
  EliasFanoEncode(n, indices, bytes);
  return bytes;
}

void ExpectRoundTrip(uint32_t n, const std::vector<uint16_t>& indices) {
  const std::vector<std::byte> bytes = Encode(n, indices);
  std::vector<uint16_t> decoded(indices.size());
  ASSERT_TRUE(EliasFanoDecode(n, bytes, decoded).ok()) << n << " " << indices.size();
  ASSERT_EQ(decoded, indices) << n;
}

TEST(EliasFano, CostsEightBitsAnIndexFor64Of4096) {
  EXPECT_EQ(EliasFanoBytes(4096, 64), 64u);
  EXPECT_EQ(EliasFanoBytes(4096, 128), 112u);
  EXPECT_EQ(EliasFanoBytes(4096, 256), 192u);
}

// By hand, on both sides of the powers of two.
TEST(EliasFanoEncode, TakesTheFloorOfTheLogarithm) {
  EXPECT_EQ(Encode(1, {0}), Bytes({0x01}));           // l = 0
  EXPECT_EQ(Encode(4, {0, 1, 2, 3}), Bytes({0x55}));  // 0
  EXPECT_EQ(Encode(4, {0, 1, 3}), Bytes({0x25}));     // 0
  EXPECT_EQ(Encode(4, {0, 3}), Bytes({0x25}));        // 1
  EXPECT_EQ(Encode(7, {1, 6}), Bytes({0x51}));        // 1
  EXPECT_EQ(Encode(8, {1, 7}), Bytes({0xd5}));        // 2
}

TEST(EliasFanoEncode, GivesTheBytesWorkedOutByHand) {
  // l = 2; highs 0 1 1 3 at positions 0, 2, 3, 6; then the lows 3, 0, 3, 0 from bit 8 on.
  EXPECT_EQ(Encode(16, {3, 4, 7, 12}), Bytes({0x4d, 0x33}));
}

TEST(EliasFano, RoundTripsEverySubsetOfSixElements) {
  for (uint32_t n = 1; n <= 6; ++n) {
    for (uint32_t subset = 1; subset < (1u << n); ++subset) {
      std::vector<uint16_t> indices;
      for (uint32_t i = 0; i < n; ++i) {
        if ((subset >> i & 1) != 0) indices.push_back(static_cast<uint16_t>(i));
      }
      ExpectRoundTrip(n, indices);
    }
  }
}

TEST(EliasFano, RoundTripsAtEverySizeAndCount) {
  Rng rng(2);
  for (uint32_t n : {1u, 2u, 7u, 63u, 64u, 65u, 100u, 1000u, 4095u, 4096u, 65535u, 65536u}) {
    for (uint32_t k : {1u, 2u, 3u, 31u, 32u, 63u, 64u, 65u, 128u, 256u, 1000u, 4095u, 4096u}) {
      if (k > n) continue;
      ExpectRoundTrip(n, RandomIndices(n, k, rng));
      std::vector<uint16_t> low(k), high(k);
      std::iota(low.begin(), low.end(), uint16_t{0});
      std::iota(high.begin(), high.end(), static_cast<uint16_t>(n - k));
      ExpectRoundTrip(n, low);
      ExpectRoundTrip(n, high);
    }
  }
}

TEST(EliasFanoDecodeAll, ReadsOneBlockAfterTheOtherAndSeesAWrongOne) {
  Rng rng(11);
  for (uint32_t n : {1u, 64u, 100u, 1000u, 4096u, 65536u}) {
    for (uint32_t k : {1u, 2u, 31u, 33u, 63u, 64u, 65u, 256u}) {
      if (k > n) continue;
      std::vector<std::vector<std::byte>> blocks;
      std::vector<const std::byte*> starts;
      std::vector<uint16_t> wanted;
      for (int block = 0; block < 5; ++block) {
        const std::vector<uint16_t> indices = RandomIndices(n, k, rng);
        wanted.insert(wanted.end(), indices.begin(), indices.end());
        blocks.push_back(Encode(n, indices));
        starts.push_back(blocks.back().data());
      }
      std::vector<uint16_t> decoded(wanted.size());
      ASSERT_TRUE(EliasFanoDecodeAll(n, k, starts, decoded.data())) << n << " " << k;
      ASSERT_EQ(decoded, wanted) << n << " " << k;
      blocks[3][0] ^= std::byte{1};  // adds or removes a high bit
      EXPECT_FALSE(EliasFanoDecodeAll(n, k, starts, decoded.data())) << n << " " << k;
    }
  }
}

// Of four indices below 64. The second and third share the high part 1.
TEST(EliasFanoDecode, RejectsWhatIsNoEncoding) {
  for (const auto& [bytes, sentence] : {
           std::pair(Bytes({0, 0}), "got 2 bytes, wanted 3"),
           std::pair(Bytes({0x0d, 0x13, 0xc2}), "got 3 high bits, wanted 4"),
           std::pair(Bytes({0x5d, 0x13, 0xc2}), "more than 4 high bits"),
           std::pair(Bytes({0x4d, 0x13, 0xc1}), "got 17 after 17"),
           std::pair(Bytes({0x4d, 0x23, 0xc1}), "got 17 after 18"),
           std::pair(Bytes({0x8d, 0x13, 0xc2}), "wanted less than 64"),  // past the last bucket
       }) {
    std::vector<uint16_t> out(4);
    EXPECT_THAT(std::string(EliasFanoDecode(64, bytes, out).message()), HasSubstr(sentence));
  }
}

TEST(EliasFanoDecode, RejectsAnIndexOutOfRange) {
  // n = 60: l = 3, 4 + 8 high bits; the last index is 56 + 4.
  std::vector<std::byte> bytes = Encode(60, {0, 1, 2, 59});
  std::vector<uint16_t> out(4);
  ASSERT_TRUE(EliasFanoDecode(60, bytes, out).ok());
  bytes[2] = static_cast<std::byte>(std::to_integer<int>(bytes[2]) ^ 0xe0);  // low part 3 to 4
  EXPECT_THAT(std::string(EliasFanoDecode(60, bytes, out).message()),
              HasSubstr("got 60, wanted less than 60"));
}

TEST(EliasFanoDecode, RejectsNonZeroPadding) {
  std::vector<std::byte> bytes = Encode(100, {1, 2, 3, 50, 60, 70, 99});  // 41 bits in 6 bytes
  ASSERT_EQ(bytes.size(), 6u);
  std::vector<uint16_t> out(7);
  ASSERT_TRUE(EliasFanoDecode(100, bytes, out).ok());
  bytes.back() |= std::byte{0x80};
  EXPECT_THAT(std::string(EliasFanoDecode(100, bytes, out).message()), HasSubstr("padding"));
}

TEST(EliasFanoDecode, AcceptsOnlyWhatTheEncoderWrites) {
  // Every 24-bit block of (64, 4) that decodes equals the encoding of its indices.
  std::vector<uint16_t> out(4);
  int valid = 0;
  for (uint32_t word = 0; word < (1u << 24); word += 5) {
    const auto bytes = Bytes({static_cast<int>(word & 0xff), static_cast<int>(word >> 8 & 0xff),
                              static_cast<int>(word >> 16)});
    if (!EliasFanoDecode(64, bytes, out).ok()) continue;
    ++valid;
    ASSERT_EQ(Encode(64, out), bytes);
  }
  EXPECT_GT(valid, 100000);  // about a fifth of binomial(64, 4) = 635376
}

}  // namespace
}  // namespace longwave
