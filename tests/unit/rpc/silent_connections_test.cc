#include "common/rpc/silent_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(SilentConnections, CountsWhoIsThereForLongAndMakesNoCall) {
  SilentConnections connections;
  EXPECT_THAT(connections.Look({"a:1", "b:1"}, At(0)), IsEmpty());
  connections.Heard("b:1", At(1));
  EXPECT_THAT(connections.Look({"a:1", "b:1", "c:1"}, At(2)), IsEmpty());
  EXPECT_THAT(connections.Look({"a:1", "b:1", "c:1"}, At(3)), ElementsAre("a:1"));
  EXPECT_THAT(connections.Look({"a:1", "b:1"}, At(9)), IsEmpty()) << "once, and c has gone";
  // Another connection from the same port.
  EXPECT_THAT(connections.Look({"b:1"}, At(10)), IsEmpty());
  EXPECT_THAT(connections.Look({"a:1", "b:1"}, At(11)), IsEmpty());
  EXPECT_THAT(connections.Look({"a:1", "b:1"}, At(14)), ElementsAre("a:1"));
}

TEST(SilentConnections, WhoIsHeardBeforeItIsSeenIsNotSilent) {
  SilentConnections connections;
  connections.Heard("a:1", At(0));
  EXPECT_THAT(connections.Look({}, At(0.1)), IsEmpty()) << "of a list made before";
  EXPECT_THAT(connections.Look({"a:1"}, At(1)), IsEmpty());
  EXPECT_THAT(connections.Look({"a:1"}, At(9)), IsEmpty());
  EXPECT_THAT(connections.Look({}, At(10)), IsEmpty());
  EXPECT_THAT(connections.Look({"a:1"}, At(11)), IsEmpty());
  EXPECT_THAT(connections.Look({"a:1"}, At(14)), ElementsAre("a:1")) << "that is another one";
}

TEST(SilentConnections, PeersAreNamedAsGrpcNamesThem) {
  EXPECT_EQ(PeerOfGrpc("ipv4:10.1.2.3:4567"), "10.1.2.3:4567");
  EXPECT_EQ(PeerOfGrpc("ipv6:%5B::1%5D:4567"), "[::1]:4567");
  // Of port 7070: one that listens, two that stand, one that ends; and one of another port.
  constexpr char kTable[] =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"
      "   0: 00000000:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n"
      "   1: 0100007F:1B9E 0302010A:11D7 01 00000000:00000000 00:00000000 00000000\n"
      "   2: 0100007F:1B9E 0100007F:0001 06 00000000:00000000 00:00000000 00000000\n"
      "   3: 0100007F:1B9F 0100007F:0002 01 00000000:00000000 00:00000000 00000000\n"
      "   4: nonsense\n";
  EXPECT_THAT(PeersAt(7070, kTable), ElementsAre("10.1.2.3:4567"));
  constexpr char kTable6[] =
      "   0: 0000000000000000FFFF00000100007F:1B9E 0000000000000000FFFF00000302010A:11D7 01 0\n"
      "   1: 00000000000000000000000001000000:1B9E 00000000000000000000000001000000:11D7 01 0\n";
  EXPECT_THAT(PeersAt(7070, kTable6), ElementsAre("10.1.2.3:4567", "[::1]:4567"));
}

}  // namespace
}  // namespace longwave
