#include "server/service/worker_connections.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longwave {
namespace {

using ::testing::IsEmpty;
using ::testing::Pointee;
using ::testing::UnorderedElementsAre;

TEST(WorkerConnections, NothingIsKnownBeforeTheFirstFrame) {
  const WorkerConnections connections(4);
  EXPECT_EQ(connections.RouteOf(0), nullptr);
  EXPECT_THAT(connections.peers(), IsEmpty());
}

TEST(WorkerConnections, ASegmentGoesWhereItsLastFrameCameFrom) {
  WorkerConnections connections(4);
  connections.Hear("a", 0);
  connections.Hear("b", 1);
  EXPECT_THAT(connections.RouteOf(0), Pointee(std::string("a")));
  EXPECT_THAT(connections.RouteOf(1), Pointee(std::string("b")));
  connections.Hear("b", 0);
  EXPECT_THAT(connections.RouteOf(0), Pointee(std::string("b")));
}

TEST(WorkerConnections, OtherSegmentsGoByTheConnectionHeardLast) {
  WorkerConnections connections(4);
  connections.Hear("a", 0);
  connections.Hear("b", std::nullopt);  // a hello
  EXPECT_THAT(connections.RouteOf(0), Pointee(std::string("a")));
  EXPECT_THAT(connections.RouteOf(3), Pointee(std::string("b")));
}

TEST(WorkerConnections, SegmentsOfAConnectionThatWentGoByAnother) {
  WorkerConnections connections(4);
  connections.Hear("a", 0);
  connections.Hear("b", 1);
  connections.Remove("b");
  connections.Remove("b");
  connections.Remove("never heard of");
  EXPECT_THAT(connections.RouteOf(1), Pointee(std::string("a")));
  EXPECT_THAT(connections.peers(), UnorderedElementsAre("a"));
  connections.Remove("a");
  EXPECT_EQ(connections.RouteOf(0), nullptr);
  connections.Hear("c", 2);
  EXPECT_THAT(connections.RouteOf(0), Pointee(std::string("c")));
}

TEST(WorkerConnections, OneTooManyTakesThePlaceOfTheOneNotHeardForLongest) {
  WorkerConnections connections(2);
  for (size_t i = 0; i < WorkerConnections::kConnectionsMax; ++i) {
    EXPECT_EQ(connections.Hear(absl::StrCat("peer ", i), std::nullopt), std::nullopt);
  }
  connections.Hear("peer 0", 0);
  EXPECT_EQ(connections.Hear("new", 1), std::optional<PeerId>("peer 1"));
  EXPECT_EQ(connections.peers().size(), WorkerConnections::kConnectionsMax);
  EXPECT_THAT(connections.RouteOf(0), Pointee(std::string("peer 0")));
  EXPECT_THAT(connections.RouteOf(1), Pointee(std::string("new")));
  connections.Remove("peer 7");
  EXPECT_EQ(connections.Hear("newer", 1), std::nullopt) << "a free place is taken first";
}

}  // namespace
}  // namespace longwave
