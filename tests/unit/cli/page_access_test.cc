#include "cli/live/page_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

class PageAccessTest : public testing::Test {
 protected:
  PageAnswer Ask(std::string_view method, std::string_view target,
                 const std::vector<std::string_view>& hosts = {"run.example:7080"}) const {
    return access_.Answer({.method = method, .target = target, .hosts = hosts});
  }

  const PageAccess access_{kToken, {"run.example", "10.0.0.5", "::1"}};
  const std::string page_ = access_.path();
};

TEST_F(PageAccessTest, TheLinkHasThePageAndItsParts) {
  EXPECT_EQ(page_, std::string("/") + kToken + "/");
  EXPECT_THAT(Ask("GET", page_).body, StartsWith("<!doctype html>"));
  EXPECT_THAT(Ask("GET", page_ + "?x=1").body, StartsWith("<!doctype html>"));
  EXPECT_STREQ(Ask("GET", page_ + "page.js").type, "text/javascript; charset=utf-8");
  EXPECT_STREQ(Ask("GET", page_ + "page.css").type, "text/css; charset=utf-8");
  EXPECT_TRUE(Ask("GET", page_ + "events").is_stream);
}

TEST_F(PageAccessTest, WithoutTheTokenNothingIsThere) {
  std::string wrong = page_;
  wrong[page_.size() - 2] ^= 1;
  for (const std::string& target :
       {std::string("/"), std::string(""), std::string("*"), std::string("/events"),
        std::string("/page.js"), wrong, wrong + "events", page_.substr(0, page_.size() - 1),
        page_.substr(1), "/" + page_, page_ + "../events", page_ + "metrics", page_ + "events/",
        "http://run.example" + page_}) {
    for (const char* method : {"GET", "HEAD", "POST"}) {
      if (target.starts_with(page_) && std::string(method) == "POST") continue;
      const PageAnswer answer = Ask(method, target);
      EXPECT_STREQ(answer.status, "404 Not Found") << method << " " << target;
      EXPECT_EQ(answer.body, "not found\n");
      EXPECT_FALSE(answer.is_stream);
    }
  }
}

TEST_F(PageAccessTest, NothingCanBeChanged) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"}) {
    EXPECT_STREQ(Ask(method, page_).status, "405 Method Not Allowed") << method;
    EXPECT_STREQ(Ask(method, page_ + "events").status, "405 Method Not Allowed") << method;
  }
}

TEST_F(PageAccessTest, AnotherNameMayNotReadIt) {
  for (const char* host : {"run.example:7080", "RUN.example", "10.0.0.5:1", "[::1]:7080"})
    EXPECT_STREQ(Ask("GET", page_, {host}).status, "200 OK") << host;
  for (const char* host : {"evil.example:7080", "", ":7080", "run.example.evil", "10.0.0.50",
                           "127.0.0.1", "run.example@evil"}) {
    const PageAnswer answer = Ask("GET", page_ + "events", {host});
    EXPECT_STREQ(answer.status, "421 Misdirected Request") << host;
    EXPECT_FALSE(answer.is_stream);
  }
  EXPECT_STREQ(Ask("GET", page_, {}).status, "421 Misdirected Request");
  EXPECT_STREQ(Ask("GET", page_, {"10.0.0.5", "10.0.0.5"}).status, "421 Misdirected Request");
}

TEST_F(PageAccessTest, EveryAnswerForbidsFramesAndScriptsOfOthers) {
  for (const PageAnswer& answer : {Ask("GET", page_), Ask("GET", page_ + "events"), Ask("GET", "/"),
                                   Ask("POST", page_), Ask("GET", page_, {})}) {
    const std::string head = Written(answer, false);
    EXPECT_THAT(head, HasSubstr("default-src 'none'; script-src 'self'; style-src 'self'"));
    EXPECT_THAT(head, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(head, HasSubstr("\r\nX-Frame-Options: DENY\r\n"));
    EXPECT_THAT(head, HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"));
    EXPECT_THAT(head, HasSubstr("\r\nReferrer-Policy: no-referrer\r\n"));
    EXPECT_THAT(head, HasSubstr("\r\nCache-Control: no-store\r\n"));
    EXPECT_THAT(head, Not(HasSubstr("unsafe")));
    EXPECT_THAT(head, testing::EndsWith("\r\n\r\n"));
  }
  EXPECT_THAT(Ask("GET", page_).body, Not(HasSubstr("<script>")));
  EXPECT_THAT(Ask("GET", page_).body, Not(HasSubstr("<style")));
}

TEST(PageAccess, WithoutATokenThePageIsAtTheRoot) {
  const PageAccess access("", {"localhost"});
  EXPECT_EQ(access.path(), "/");
  EXPECT_STREQ(access.Answer({"GET", "/", {"localhost:1"}}).status, "200 OK");
  EXPECT_STREQ(access.Answer({"GET", "", {"localhost:1"}}).status, "404 Not Found");
  EXPECT_STREQ(access.Answer({"GET", "/", {"rebound.example:1"}}).status,
               "421 Misdirected Request");
}

}  // namespace
}  // namespace longwave
