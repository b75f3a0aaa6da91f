#include "worker/node/socket_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

// The two ends of the sockets of ranks 1, 2, …
std::vector<std::array<int, 2>> Pairs(uint32_t ranks) {
  std::vector<std::array<int, 2>> pairs(ranks - 1);
  for (auto& pair : pairs)
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  return pairs;
}

std::unique_ptr<SocketLink> LinkOf(const std::vector<std::array<int, 2>>& pairs, uint32_t rank) {
  const NodeRank node{.rank = rank, .ranks = static_cast<uint32_t>(pairs.size()) + 1};
  std::vector<int> sockets;
  for (const auto& pair : pairs) sockets.push_back(pair[0]);
  if (rank > 0) sockets = {pairs[rank - 1][1]};
  return std::make_unique<SocketLink>(node, sockets);
}

TEST(SocketLink, GivesTheBytesOfAllRanksByRank) {
  const auto pairs = Pairs(4);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      const auto link = LinkOf(pairs, rank);
      // Longer than a socket's buffer, empty, and with zeros.
      for (const size_t size : {0, 1, 3, 3'000'000}) {
        const auto mine = [&](uint32_t of) {
          return absl::StrCat(of, std::string(size * (of + 1) / 2, '\0'), of);
        };
        const auto all = link->AllGather(mine(rank), absl::Seconds(60));
        ASSERT_TRUE(all.ok()) << all.status();
        ASSERT_EQ(all->size(), 4u);
        for (uint32_t of = 0; of < 4; ++of) EXPECT_TRUE((*all)[of] == mine(of)) << size;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SocketLink, NamesARankThatIsKilledToAllOthers) {
  const auto pairs = Pairs(3);
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& pair : pairs) close(pair[0]);
    close(pairs[0][1]);
    for (;;) pause();
  }
  ASSERT_GT(child, 0);
  close(pairs[1][1]);
  const auto first = LinkOf(pairs, 0);
  const auto second = LinkOf(pairs, 1);
  std::thread other([&] {
    const auto all = second->AllGather("", absl::Hours(1));
    EXPECT_EQ(all.status(), absl::UnavailableError("node: rank 2 has ended"));
  });
  kill(child, SIGKILL);
  const auto all = first->AllGather("", absl::Hours(1));
  EXPECT_EQ(all.status(), absl::UnavailableError("node: rank 2 has ended"));
  other.join();
  // A broken link stays broken, and says why.
  EXPECT_EQ(first->AllGather("", absl::Hours(1)).status(), all.status());
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(SocketLink, NamesTheRanksThatDoNotComeInTime) {
  const auto pairs = Pairs(4);
  const auto first = LinkOf(pairs, 0), second = LinkOf(pairs, 1);
  const auto third = LinkOf(pairs, 2), fourth = LinkOf(pairs, 3);
  std::thread other([&] {
    // Rank 0 tells what it knows, before this rank's own patience ends.
    const auto all = third->AllGather("here", absl::Hours(1));
    EXPECT_THAT(std::string(all.status().message()), HasSubstr("rank 1, 3 has not come within"));
  });
  pollfd rank_2{.fd = pairs[1][0], .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&rank_2, 1, -1), 1);
  const auto all = first->AllGather("", absl::Milliseconds(200));
  EXPECT_EQ(all.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(all.status().message()),
              HasSubstr("rank 1, 3 has not come within 200ms"));
  other.join();
}

TEST(SocketLink, EndsAtOtherRanksWithRank0) {
  const auto pairs = Pairs(2);
  auto first = LinkOf(pairs, 0);
  const auto second = LinkOf(pairs, 1);
  first.reset();
  EXPECT_EQ(second->AllGather("", absl::Hours(1)).status(),
            absl::UnavailableError("node: rank 0 has ended"));
}

TEST(SocketLink, EndsAtARankWhoseRank0Hangs) {
  const auto pairs = Pairs(2);
  const auto first = LinkOf(pairs, 0), second = LinkOf(pairs, 1);
  EXPECT_EQ(second->AllGather("", absl::Milliseconds(1)).status(),
            absl::UnavailableError("node: a rank has not come within 1ms"));
  // Rank 0 comes late, and finds the rank's bytes of that call, and in the next its failure.
  EXPECT_TRUE(first->AllGather("", absl::Hours(1)).ok());
  EXPECT_EQ(first->AllGather("", absl::Hours(1)).status(),
            absl::UnavailableError("node: a rank has not come within 1ms"));
}

}  // namespace
}  // namespace longwave
