#include "server/security/admission_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KeyHash Hash(int seed) {
  KeyHash hash{};
  hash[0] = static_cast<std::byte>(seed);
  return hash;
}

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);
constexpr absl::Duration kHour = absl::Hours(1);
const char* const kAny = AdmissionBook::kAnyWorker;

class AdmissionBookTest : public ::testing::Test {
 protected:
  void Create(const std::string& subject = kAny, uint32_t uses = 1) {
    const absl::Status status = book_.Create("t", Hash(1), subject, kHour, uses, kNow);
    EXPECT_TRUE(status.ok()) << status;
  }
  absl::Status Redeem(const std::string& subject, int key, absl::Time now = kNow) {
    return book_.Redeem("t", Hash(1), subject, Hash(key), /*is_taken=*/false, now);
  }
  void ExpectDenied(const absl::Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }

  AdmissionBook book_;
};

TEST_F(AdmissionBookTest, ATokenLetsInAsManyAsItHasUses) {
  Create(kAny, 2);
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  EXPECT_TRUE(Redeem("worker/b", 3).ok());
  ExpectDenied(Redeem("worker/c", 4), "used 2 of 2 times");
}

TEST_F(AdmissionBookTest, TheSameKeyAgainIsNotAnotherUse) {
  Create();
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  const AdmissionBook before = book_;
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  EXPECT_EQ(book_, before);
  ExpectDenied(Redeem("worker/a", 3), "used 1 of 1");
}

TEST_F(AdmissionBookTest, AnUnknownIdAndAWrongSecretAreRefusedAlike) {
  Create();
  const absl::Status wrong = book_.Redeem("t", Hash(9), "worker/a", Hash(2), false, kNow);
  const absl::Status unknown = book_.Redeem("u", Hash(1), "worker/a", Hash(2), false, kNow);
  ExpectDenied(wrong, "not one of this run's");
  EXPECT_EQ(wrong, unknown);
}

TEST_F(AdmissionBookTest, ATokenEndsWithItsLife) {
  Create();
  EXPECT_TRUE(AdmissionBook(book_)
                  .Redeem("t", Hash(1), "worker/a", Hash(2), false, kNow + kHour - absl::Seconds(1))
                  .ok());
  ExpectDenied(Redeem("worker/a", 2, kNow + kHour), "it expired");
}

TEST_F(AdmissionBookTest, ARevokedTokenLetsNobodyInNotEvenAgain) {
  Create();
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  EXPECT_TRUE(book_.Revoke("t").ok());
  ExpectDenied(Redeem("worker/a", 2), "revoked");
  EXPECT_EQ(book_.Revoke("u").code(), absl::StatusCode::kNotFound);
}

TEST_F(AdmissionBookTest, ANameIsItsFirstKeysAlone) {
  Create(kAny, 9);
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  EXPECT_EQ(Redeem("worker/a", 3).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(book_.Redeem("t", Hash(1), "worker/b", Hash(3), /*is_taken=*/true, kNow).code(),
            absl::StatusCode::kAlreadyExists);
  // A token for the name gives it another key.
  EXPECT_TRUE(book_.Create("u", Hash(5), "worker/a", kHour, 1, kNow).ok());
  EXPECT_TRUE(book_.Redeem("u", Hash(5), "worker/a", Hash(4), true, kNow).ok());
  EXPECT_EQ(Redeem("worker/a", 2).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(AdmissionBookTest, ATokenIsForWhomItWasMade) {
  Create("shard/1");
  ExpectDenied(Redeem("shard/0", 2), "made for shard/1 alone");
  ExpectDenied(Redeem("worker/a", 2), "made for shard/1 alone");
  EXPECT_TRUE(Redeem("shard/1", 2).ok());
  EXPECT_TRUE(book_.Create("w", Hash(7), kAny, kHour, 1, kNow).ok());
  ExpectDenied(book_.Redeem("w", Hash(7), "shard/0", Hash(2), false, kNow), "made for workers");
}

TEST_F(AdmissionBookTest, AnExpelledNameJoinsNoMoreUntilItMay) {
  Create(kAny, 9);
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  book_.Expel("a");
  EXPECT_TRUE(book_.names().IsExpelled("a"));
  ExpectDenied(Redeem("worker/a", 2), "revoked");
  EXPECT_TRUE(book_.Create("u", Hash(5), kAny, kHour, 2, kNow).ok());
  ExpectDenied(book_.Redeem("u", Hash(5), "worker/a", Hash(2), false, kNow), "expelled");
  EXPECT_TRUE(book_.Readmit("a", false).ok());
  EXPECT_TRUE(book_.Redeem("u", Hash(5), "worker/a", Hash(3), false, kNow).ok());
  EXPECT_EQ(book_.Readmit("a", false).code(), absl::StatusCode::kNotFound);
}

TEST_F(AdmissionBookTest, WhatAnExpelledWorkerHasJoinedWithLetsItInUnderNoOtherName) {
  Create(kAny, 9);
  EXPECT_TRUE(book_.Create("u", Hash(5), kAny, kHour, 2, kNow).ok());
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  EXPECT_TRUE(book_.Redeem("u", Hash(5), "worker/b", Hash(4), false, kNow).ok());
  EXPECT_THAT(book_.Expel("a"), ElementsAre("t"));
  ExpectDenied(Redeem("worker/c", 2), "revoked");
  EXPECT_TRUE(book_.Redeem("u", Hash(5), "worker/c", Hash(6), false, kNow).ok())
      << "that of others is as good as before";
  EXPECT_THAT(book_.Expel("a"), ElementsAre()) << "revoked already";
}

TEST_F(AdmissionBookTest, WhoIsReadmittedByTokenIsNobodyUntilANewOneLetsItIn) {
  Create(kAny, 9);
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  book_.Expel("a");
  EXPECT_TRUE(book_.Readmit("a", true).ok());
  EXPECT_EQ(book_.names().OwnerOf("worker/a"), kNoKey);
  ExpectDenied(Redeem("worker/a", 2), "revoked");
  const auto read = AdmissionBook::Decode(book_.Encode());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->names().OwnerOf("worker/a"), kNoKey);
  ASSERT_TRUE(book_.Create("u", Hash(5), kAny, kHour, 2, kNow).ok());
  EXPECT_TRUE(book_.Redeem("u", Hash(5), "worker/a", Hash(3), true, kNow).ok())
      << "although the name has been in the run";
  EXPECT_EQ(book_.names().OwnerOf("worker/a"), Hash(3));
}

TEST_F(AdmissionBookTest, ATokenIsLookedUpBeforeAnythingElse) {
  Create(kAny, 1);
  EXPECT_TRUE(book_.CheckToken("t", Hash(1), kNow).ok());
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  EXPECT_TRUE(book_.CheckToken("t", Hash(1), kNow).ok()) << "the same key may ask again";
  ExpectDenied(book_.CheckToken("t", Hash(2), kNow), "not one of this run's");
  ExpectDenied(book_.CheckToken("x", Hash(1), kNow), "not one of this run's");
  ExpectDenied(book_.CheckToken("t", Hash(1), kNow + 2 * kHour), "expired");
  EXPECT_TRUE(book_.Revoke("t").ok());
  ExpectDenied(book_.CheckToken("t", Hash(1), kNow), "revoked");
}

TEST_F(AdmissionBookTest, GrowsNoLargerThanWhatWillBeRead) {
  constexpr size_t kBytesMax = 4096;
  book_ = AdmissionBook(kBytesMax);
  ASSERT_TRUE(book_.Create("old", Hash(9), kAny, kHour / 2, 1000, kNow).ok());
  const absl::Time later = kNow + kHour / 2;
  int joined = 0;
  for (; joined < 10; ++joined) {
    const std::string subject = absl::StrCat("worker/early-", joined);
    ASSERT_TRUE(book_.Redeem("old", Hash(9), subject, Hash(joined), false, kNow).ok());
  }
  ASSERT_TRUE(book_.Create("t", Hash(1), kAny, kHour, 1000, kNow).ok());
  absl::Status status;
  for (; joined < 1000 && status.ok(); ++joined)
    status = Redeem(absl::StrCat("worker/", joined), joined % 200, later);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(book_.tokens().size(), 1u) << "the expired one made space for others";
  EXPECT_GT(joined, 25);
  EXPECT_LE(book_.Encode().size(), kBytesMax);
  while (status = book_.Create(absl::StrCat("v", joined++), Hash(5), kAny, kHour, 1, later),
         status.ok()) {
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_LE(book_.Encode().size(), kBytesMax);
  book_.Expel("worker");
  EXPECT_LE(book_.Encode().size(), kBytesMax) << "there is space for who is expelled";
}

TEST_F(AdmissionBookTest, LimitsAreSaid) {
  for (const auto& [life, uses] : {std::pair{absl::ZeroDuration(), 1u}, std::pair{-kHour, 1u},
                                   std::pair{AdmissionBook::kLifeMax + absl::Seconds(1), 1u},
                                   std::pair{absl::InfiniteDuration(), 1u}, std::pair{kHour, 0u},
                                   std::pair{kHour, AdmissionBook::kUsesMax + 1}}) {
    EXPECT_EQ(book_.Create("t", Hash(1), kAny, life, uses, kNow).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(book_.Create("t", Hash(1), "worker/a", kHour, 2, kNow).ok());
  for (size_t i = 0; i < AdmissionBook::kTokensMax; ++i)
    ASSERT_TRUE(book_.Create(absl::StrCat(i), Hash(1), kAny, kHour, 1, kNow).ok());
  EXPECT_EQ(book_.Create("t", Hash(1), kAny, kHour, 1, kNow).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(book_.Create("t", Hash(1), kAny, kHour, 1, kNow + kHour).ok()) << "expired ones go";
}

TEST_F(AdmissionBookTest, ComesBackFromItsBytesAndFromNoOthers) {
  Create(kAny, 3);
  EXPECT_TRUE(Redeem("worker/a", 2).ok());
  book_.Expel("b");
  const std::vector<std::byte> bytes = book_.Encode();
  EXPECT_EQ(bytes.size(), book_.EncodedBytes());
  const auto read = AdmissionBook::Decode(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, book_);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(AdmissionBook::Decode(std::span(bytes).first(size)).ok()) << size;
  for (size_t place = 0; place < bytes.size(); ++place) {
    std::vector<std::byte> damaged = bytes;
    damaged[place] ^= std::byte{0x40};
    EXPECT_FALSE(AdmissionBook::Decode(damaged).ok()) << place;
  }
}

}  // namespace
}  // namespace longwave
