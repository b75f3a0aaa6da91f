#include "cli/live/live_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/live_data.h"
#include "common/config/config.h"
#include "common/security/credentials.h"
#include "tests/support/http_get.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class LiveServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = LiveServer::Start({.address = "127.0.0.1:0"}, [this] {
      ++wholes_;
      return std::string("{\"all\": 1}");
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = server_->link().substr(7);
    address_.pop_back();
  }
  HttpAnswer Ask(const std::string& method, const std::string& path,
                 const std::string& more = "") const {
    return SendRaw(address_, absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: ", address_,
                                          "\r\n", more, "\r\n"));
  }
  // A connection whose page is open; what it has read so far is in `text`.
  int OpenPage(std::string* text = nullptr) const {
    const int fd = ConnectTo(address_);
    const std::string request =
        absl::StrCat("GET /events HTTP/1.1\r\nHost: ", address_, "\r\n\r\n");
    EXPECT_GT(send(fd, request.data(), request.size(), MSG_NOSIGNAL), 0);
    const std::string got = ReadUntil(fd, "{\"all\": 1}\n\n");
    if (text != nullptr) *text = got;
    return fd;
  }
  static std::string ReadUntil(int fd, const std::string& end) {
    std::string text;
    char buffer[1 << 16];
    while (!text.ends_with(end)) {
      const ssize_t got = read(fd, buffer, sizeof buffer);
      if (got <= 0) break;
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }

  std::unique_ptr<LiveServer> server_;
  std::string address_;
  std::atomic<int> wholes_ = 0;
};

TEST_F(LiveServerTest, APageGetsTheWholeAndThenWhatIsNew) {
  EXPECT_THAT(Ask("GET", "/").body, StartsWith("<!doctype html>"));
  std::string begin;
  const int page = OpenPage(&begin);
  EXPECT_THAT(begin, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"));
  EXPECT_THAT(begin, EndsWith("\r\n\r\nevent: whole\ndata: {\"all\": 1}\n\n"));
  server_->Publish("{\"new\": 2}");
  EXPECT_EQ(ReadUntil(page, "2}\n\n"), "event: news\ndata: {\"new\": 2}\n\n");
  server_.reset();
  char byte;
  EXPECT_EQ(read(page, &byte, 1), 0);  // an end, no reset
  close(page);
}

TEST_F(LiveServerTest, TheWholeIsMadeOnceForManyPages) {
  std::vector<int> pages;
  pages.reserve(21);
  for (int i = 0; i < 20; ++i) pages.push_back(OpenPage());
  EXPECT_EQ(wholes_, 1);
  server_->Publish("{}");
  pages.push_back(OpenPage());
  EXPECT_EQ(wholes_, 2);
  for (const int page : pages) close(page);
}

TEST_F(LiveServerTest, AnIntruderLearnsNothing) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const HttpAnswer answer = Ask(method, "/events", "Content-Length: 5\r\n");
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_EQ(answer.body, "wanted GET\n");
  }
  EXPECT_EQ(Ask("GET", "/", "Content-Length: 5\r\n").status, 200);
  EXPECT_EQ(Ask("GET", "/summary.json").status, 404);
  EXPECT_EQ(Ask("HEAD", "/").body, "");
  EXPECT_EQ(Ask("HEAD", "/events").body, "");
  EXPECT_EQ(SendRaw(address_, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 421);
  EXPECT_EQ(SendRaw(address_, "GET / HTTP/1.1\r\n\r\n").status, 421);
  EXPECT_EQ(SendRaw(address_, "\x16\x03\x01\x02\r\n\r\n").status, 400);
  EXPECT_EQ(SendRaw(address_, "GET / SPDY/3\r\n\r\n").status, 400);
  EXPECT_EQ(Ask("GET", "/", "X: " + std::string(10'000, 'x') + "\r\n").status, 431);
  EXPECT_EQ(wholes_, 0);
}

TEST_F(LiveServerTest, SilentConnectionsKeepNobodyWaiting) {
  std::vector<int> silent;
  for (size_t i = 0; i < 2 * LiveServer::kCallersMax; ++i) silent.push_back(ConnectTo(address_));
  EXPECT_EQ(Ask("GET", "/").status, 200);
  EXPECT_TRUE(HungUp(silent.front(), absl::Seconds(10)));  // as the oldest
  EXPECT_TRUE(HungUp(silent.back(), absl::Seconds(20)));   // as it says nothing
  for (const int fd : silent) close(fd);
}

TEST_F(LiveServerTest, MorePagesThanItServesAreRefused) {
  std::vector<int> pages;
  for (size_t i = 0; i < LiveServer::kPagesMax; ++i) pages.push_back(OpenPage());
  EXPECT_EQ(Ask("GET", "/events").status, 503);
  close(pages.front());
  // The server notices the end without any news.
  for (int i = 0; i < 100; ++i) {
    absl::SleepFor(absl::Milliseconds(20));
    const int again = ConnectTo(address_);
    const std::string request =
        absl::StrCat("GET /events HTTP/1.1\r\nHost: ", address_, "\r\n\r\n");
    ASSERT_GT(send(again, request.data(), request.size(), MSG_NOSIGNAL), 0);
    char answer[12] = "";
    ASSERT_EQ(recv(again, answer, sizeof answer, MSG_WAITALL), 12);
    pages.push_back(again);
    if (std::string_view(answer, 12) == "HTTP/1.1 200") break;
    ASSERT_LT(i, 99);
  }
  for (const int page : pages) close(page);
}

TEST_F(LiveServerTest, AReaderThatIsSlowIsDroppedAndDelaysNobody) {
  const int slow = OpenPage();
  const int quick = OpenPage();
  const std::string news(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) {
    const absl::Time begin = absl::Now();
    server_->Publish(news);
    EXPECT_LT(absl::Now() - begin, absl::Seconds(1));
    EXPECT_EQ(ReadUntil(quick, "x\n\n").size(), news.size() + 20);
  }
  server_->Publish("last");
  EXPECT_THAT(ReadUntil(quick, "last\n\n"), EndsWith("last\n\n"));
  EXPECT_TRUE(HungUp(slow, absl::Seconds(20)));
  close(slow);
  close(quick);
}

TEST_F(LiveServerTest, EndsAtOnceWhileOthersHoldConnections) {
  const int silent = ConnectTo(address_);
  const int page = OpenPage();
  const absl::Time begin = absl::Now();
  server_.reset();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  close(silent);
  close(page);
}

// The bar: 64 workers at an update a second cost less than 1 % of a core, 20 pages included.
TEST_F(LiveServerTest, AnUpdateOf64WorkersCostsLessThanAHundredthOfACore) {
  std::vector<std::thread> readers;
  readers.reserve(20);
  for (int i = 0; i < 20; ++i) {
    readers.emplace_back([fd = OpenPage()] {
      ReadUntil(fd, "last\n\n");
      close(fd);
    });
  }
  LiveData data("a run", DefaultConfig());
  RunStatus status;
  status.phase = RunPhase::kTraining;
  status.members.resize(64);
  for (uint32_t i = 0; i < 64; ++i)
    status.members[i].member = {.worker = i, .name = absl::StrCat("worker-", i)};
  const auto end_round = [&] {
    status.records.push_back({.round = static_cast<uint32_t>(status.records.size())});
    for (MemberStatus& member : status.members) {
      member.state.round = static_cast<uint32_t>(status.records.size());
      member.state.seconds_computing += 9.25;
      member.state.seconds_syncing += 0.75;
    }
  };
  for (int i = 0; i < 2000; ++i) end_round();
  data.Update(status, "", absl::Now());
  const auto cpu_seconds = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  };
  const double before = cpu_seconds();
  constexpr int kUpdates = 50;
  for (int i = 0; i < kUpdates; ++i) {
    end_round();
    server_->Publish(data.Update(status, "", absl::Now()));
    absl::SleepFor(absl::Milliseconds(5));
  }
  const double share = (cpu_seconds() - before) / kUpdates;  // at one a second
  RecordProperty("share_of_a_core", absl::StrCat(share));
  std::printf("an update costs %.2f ms of a core, with the 20 readers of this test\n", 1e3 * share);
  EXPECT_LT(share, 0.01);
  server_->Publish("last");
  for (std::thread& reader : readers) reader.join();
}

TEST(LiveServer, BeyondLoopbackItWantsTls) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "192.0.2.7:0"}) {
    const auto server = LiveServer::Start({.address = address}, nullptr);
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(server.status().message()),
                StartsWith(absl::StrCat("--web: got ", address, ", which is not loopback")));
  }
  EXPECT_THAT(std::string(LiveServer::Start({.address = "x"}, nullptr).status().message()),
              StartsWith("--web: "));
}

TEST(LiveServer, ALinkHasTheTokenOfItsKey) {
  const TestFolder folder;
  const auto authority = Authority::Make("a run", absl::Now());
  ASSERT_TRUE(authority.ok());
  std::vector<std::string> links;
  for (int i = 0; i < 3; ++i) {
    if (i != 1) {
      const auto made =
          MakeCredentials(**authority, {*ParseIdentity("worker/page")}, {"run.example"},
                          {absl::Now() - absl::Hours(1), absl::Hours(2)});
      ASSERT_TRUE(made.ok()) << made.status();
      ASSERT_TRUE(WriteCredentials(folder.path(), *made).ok());
    }
    const auto server = LiveServer::Start({"0.0.0.0:0", folder.path()}, nullptr);
    ASSERT_TRUE(server.ok()) << server.status();
    links.push_back((*server)->link());
    EXPECT_THAT(links.back(), StartsWith("https://run.example:"));
    links.back() = links.back().substr(links.back().find('/', 8));
    EXPECT_EQ(links.back().size(), 34);
  }
  EXPECT_EQ(links[0], links[1]);
  EXPECT_NE(links[1], links[2]);
  const auto none = LiveServer::Start({"0.0.0.0:0", folder.path() + "/none"}, nullptr);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("/none/tls.crt"));
}

}  // namespace
}  // namespace longwave
