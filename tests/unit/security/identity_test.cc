#include "common/security/identity.h"

#include <gtest/gtest.h>

#include <string>

#include "common/security/security_mode.h"
#include "common/security/token.h"

namespace longwave {
namespace {

TEST(Identity, ComesBackFromItsUri) {
  for (const Identity& identity :
       {CoordinatorIdentity(), OperatorIdentity(), ShardIdentity(0), ShardIdentity(4294967295u),
        WorkerIdentity("a"), WorkerIdentity("a b/c%d,é"), WorkerIdentity(std::string(128, '/'))}) {
    const auto parsed = ParseIdentityUri(UriOf(identity));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, identity);
  }
  EXPECT_EQ(UriOf(WorkerIdentity("a b")), "longwave:worker/a%20b");
}

TEST(Identity, HasOneUriAlone) {
  for (const char* const uri : {"longwave:worker/%61", "longwave:shard/01", "longwave:shard/-1",
                                "longwave:shard/4294967296", "longwave:shard/", "longwave:worker/",
                                "longwave:worker/a%2", "longwave:worker/%ff", "longwave:Operator",
                                "longwave:", "LONGWAVE:operator", "spiffe:worker/a", ""}) {
    EXPECT_FALSE(ParseIdentityUri(uri).ok()) << uri;
  }
  EXPECT_FALSE(ParseIdentity("worker/" + std::string(129, 'a')).ok());
}

TEST(Identity, HasNoCharactersThatATerminalObeys) {
  for (const char* const uri : {"longwave:worker/a%0Ab", "longwave:worker/%1B%5B2J",
                                "longwave:worker/a%7F", "longwave:worker/%00"})
    EXPECT_FALSE(ParseIdentityUri(uri).ok()) << uri;
  EXPECT_FALSE(ParseIdentity("worker/a\nb").ok());
  EXPECT_TRUE(ParseIdentity("worker/a b").ok());
}

TEST(Token, ComesBackFromItsText) {
  Token token{.id = "abcdefghij", .secret = "abcdefghijklmnopqrstuvwx27"};
  for (size_t i = 0; i < token.authority.size(); ++i)
    token.authority[i] = static_cast<std::byte>(i * 37 + 1);
  const auto parsed = ParseToken(FormatToken(token));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, token);
}

TEST(Token, IsRefusedInAnyOtherFormWithoutItsSecret) {
  const Token token{.id = "abcdefghij", .secret = "abcdefghijklmnopqrstuvwx27"};
  const std::string text = FormatToken(token);
  for (const std::string& bad :
       {text.substr(1), text + "a", text.substr(0, text.size() - 1), "lw2" + text.substr(3),
        text + ".a", std::string(), std::string(1000, '.'), "lw1.ABCDEFGHIJ" + text.substr(14)}) {
    const auto parsed = ParseToken(bad);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(std::string(parsed.status().message()).find(token.secret), std::string::npos);
  }
}

TEST(SecurityMode, AutoIsOffWhereEveryAddressIsLoopback) {
  EXPECT_FALSE(
      IsSecured("auto", {"127.0.0.1:7070", "tcp://[::1]:0", "localhost:1", "", "127.1.2.3"}));
  for (const char* const address : {"0.0.0.0:1", "tcp://10.0.0.1:1", "[::]:1", "host:1", "*:1",
                                    "127.evil.example:1", "localhost.example:1"}) {
    EXPECT_TRUE(IsSecured("auto", {"127.0.0.1:1", address})) << address;
    EXPECT_FALSE(IsSecured("off", {address}));
  }
  EXPECT_TRUE(IsSecured("on", {"127.0.0.1:1"}));
}

}  // namespace
}  // namespace longwave
