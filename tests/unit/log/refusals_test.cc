#include "common/log/refusals.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(Refusals, SaysTheSameOfAPeerOnceAMinute) {
  Refusals refusals;
  EXPECT_TRUE(refusals.MayName(Refusal::kExpelled, "10.0.0.1", "a", At(0)));
  EXPECT_FALSE(refusals.MayName(Refusal::kExpelled, "10.0.0.1", "a", At(1)));
  EXPECT_TRUE(refusals.MayName(Refusal::kExpelled, "10.0.0.2", "a", At(1))) << "another";
  EXPECT_TRUE(refusals.MayName(Refusal::kToken, "10.0.0.1", "a", At(1))) << "for something else";
  EXPECT_TRUE(refusals.MayName(Refusal::kExpelled, "10.0.0.1", "b", At(1))) << "and with more";
  EXPECT_TRUE(refusals.MayName(Refusal::kExpelled, "10.0.0.1", "a", At(61)));
  EXPECT_TRUE(refusals.MayName(Refusal::kExpelled, "", "a", At(62))) << "nobody knows of whom";
  EXPECT_FALSE(refusals.MayName(Refusal::kExpelled, "", "a", At(63)));
}

TEST(Refusals, AFloodDoesNotFillTheLog) {
  Refusals refusals;
  size_t of_one = 0, of_many = 0;
  for (int i = 0; i < 1000; ++i) {
    of_one += refusals.MayName(Refusal::kToken, "10.0.0.1", absl::StrCat("guess ", i), At(0));
  }
  EXPECT_EQ(of_one, Refusals::kNamedOfOneMax);
  for (int i = 0; i < 1000; ++i) {
    const std::string peer = absl::StrCat("10.1.0.", i);
    of_many += refusals.MayName(Refusal::kBadCertificate, peer, "silent", At(1));
  }
  EXPECT_EQ(of_one + of_many, Refusals::kNamedMax);
  EXPECT_TRUE(refusals.MayName(Refusal::kBadCertificate, "10.2.0.1", "silent", At(60)));
}

// The count alone would hide the peer until it has doubled.
TEST(Refusals, ANewPeerIsNamedHoweverManyWereRefusedBefore) {
  Refusals refusals;
  for (int i = 0; i < 1025; ++i) refusals.Note(Refusal::kToken, "guesses", "10.0.0.1:77");
  testing::internal::CaptureStderr();
  refusals.Note(Refusal::kToken, "guesses", "10.0.0.1:78");
  refusals.Note(Refusal::kToken, "guesses", "10.0.0.2:79");
  refusals.Note(Refusal::kToken, "guesses", "10.0.0.2:80");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("refused (token, 1027 so far): guesses, from 10.0.0.2:79"), log.npos) << log;
  EXPECT_EQ(log.find("10.0.0.1"), log.npos) << log;
  EXPECT_EQ(log.find("1028 so far"), log.npos) << log;
}

}  // namespace
}  // namespace longwave
