#include "server/shard/worker_connections.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longwave {
namespace {

using ::testing::Pointee;

// Of a connection of a worker of one device.
constexpr WorkerConnections::Hello kHello = {.number = 1, .serves_begin = 0, .serves_end = 4};

TEST(WorkerConnections, OtherSegmentsGoByTheConnectionHeardLast) {
  WorkerConnections connections(4);
  connections.Hear("a", 0, kHello);
  connections.Hear("b", std::nullopt, kHello);
  EXPECT_THAT(connections.RouteOf(0), Pointee(std::string("a")));
  EXPECT_THAT(connections.RouteOf(3), Pointee(std::string("b")));
  EXPECT_THAT(connections.Newest(0), Pointee(std::string("b")));
  connections.Hear("a", 3);
  EXPECT_THAT(connections.Newest(0), Pointee(std::string("a")));
}

TEST(WorkerConnections, SegmentsOfAConnectionThatWentGoByAnother) {
  WorkerConnections connections(4);
  connections.Hear("a", 0, kHello);
  connections.Hear("b", 1);
  connections.Remove("b");
  connections.Remove("b");
  connections.Remove("never heard of");
  EXPECT_THAT(connections.RouteOf(1), Pointee(std::string("a")));
  EXPECT_EQ(connections.size(), 1u);
  connections.Remove("a");
  EXPECT_EQ(connections.RouteOf(0), nullptr);
  connections.Hear("c", 2, kHello);
  EXPECT_THAT(connections.RouteOf(0), Pointee(std::string("c")));
}

TEST(WorkerConnections, OneTooManyTakesThePlaceOfTheOneNotHeardForLongest) {
  WorkerConnections connections(2);
  for (size_t i = 0; i < WorkerConnections::kConnectionsMax; ++i) {
    connections.Hear(absl::StrCat("peer ", i), 1);
  }
  connections.Hear("peer 0", 0);
  connections.Hear("peer 1", 1);
  connections.Hear("new", std::nullopt);
  EXPECT_EQ(connections.size(), WorkerConnections::kConnectionsMax);
  EXPECT_THAT(connections.RouteOf(0), Pointee(std::string("peer 0")));
  EXPECT_THAT(connections.RouteOf(1), Pointee(std::string("peer 1")));
  connections.Remove("peer 2");  // already replaced
  EXPECT_EQ(connections.size(), WorkerConnections::kConnectionsMax);
  connections.Remove("peer 3");
  EXPECT_EQ(connections.size(), WorkerConnections::kConnectionsMax - 1);
}

// The shard does not know yet which segments the connection serves.
TEST(WorkerConnections, AConnectionBeforeItsHelloServesTheSegmentsOfItsFrames) {
  WorkerConnections connections(4);
  connections.Hear("a", 2);
  EXPECT_THAT(connections.RouteOf(2), Pointee(std::string("a")));
  EXPECT_EQ(connections.RouteOf(0), nullptr);
  EXPECT_EQ(connections.Newest(2), nullptr);
}

// Two ranks of a node have said hello, and no frame of a segment has come.
TEST(WorkerConnections, RoutesASegmentToTheRankThatServesIt) {
  WorkerConnections connections(4);
  connections.Hear("rank 1", std::nullopt, {{.number = 7, .serves_begin = 2, .serves_end = 4}});
  connections.Hear("rank 0", std::nullopt, {{.number = 9, .serves_begin = 0, .serves_end = 2}});
  EXPECT_THAT(connections.RouteOf(1), Pointee(std::string("rank 0")));
  EXPECT_THAT(connections.RouteOf(2), Pointee(std::string("rank 1")));
  EXPECT_THAT(connections.Newest(3), Pointee(std::string("rank 1")));
  connections.Remove("rank 1");
  EXPECT_EQ(connections.RouteOf(2), nullptr);
  EXPECT_EQ(connections.Newest(3), nullptr);
}

}  // namespace
}  // namespace longwave
