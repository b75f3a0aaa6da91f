#include "common/rpc/silent_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace longwave {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// At once, as on a machine that has time.
std::vector<std::string> LookAt(SilentConnections& connections,
                                const std::vector<std::string>& connected, double seconds) {
  return connections.Look(connected, At(seconds), At(seconds));
}

TEST(SilentConnections, CountsWhoIsThereForLongAndMakesNoCall) {
  SilentConnections connections;
  EXPECT_THAT(LookAt(connections, {"a:1", "b:1"}, 0), IsEmpty());
  connections.Heard("b:1", At(1));
  EXPECT_THAT(LookAt(connections, {"a:1", "b:1", "c:1"}, 2), IsEmpty());
  EXPECT_THAT(LookAt(connections, {"a:1", "b:1", "c:1"}, 3), ElementsAre("a:1"));
  EXPECT_THAT(LookAt(connections, {"a:1", "b:1"}, 9), IsEmpty()) << "once, and c has gone";
  // Another connection from the same port.
  EXPECT_THAT(LookAt(connections, {"b:1"}, 10), IsEmpty());
  EXPECT_THAT(LookAt(connections, {"a:1", "b:1"}, 11), IsEmpty());
  EXPECT_THAT(LookAt(connections, {"a:1", "b:1"}, 14), ElementsAre("a:1"));
}

TEST(SilentConnections, WhoIsHeardBeforeItIsSeenIsNotSilent) {
  SilentConnections connections;
  connections.Heard("a:1", At(0));
  EXPECT_THAT(LookAt(connections, {}, 0.1), IsEmpty()) << "of a list made before";
  EXPECT_THAT(LookAt(connections, {"a:1"}, 1), IsEmpty());
  EXPECT_THAT(LookAt(connections, {"a:1"}, 9), IsEmpty());
  EXPECT_THAT(LookAt(connections, {}, 10), IsEmpty());
  EXPECT_THAT(LookAt(connections, {"a:1"}, 11), IsEmpty());
  EXPECT_THAT(LookAt(connections, {"a:1"}, 14), ElementsAre("a:1")) << "that is another one";
}

// gRPC lets a half-open one go after five seconds.
TEST(SilentConnections, WhoIsLetGoBetweenLateLooksIsCounted) {
  SilentConnections connections;
  EXPECT_THAT(LookAt(connections, {"a:1", "b:1", "c:1"}, 1.2), IsEmpty());
  EXPECT_THAT(LookAt(connections, {"a:1", "b:1"}, 2.6), IsEmpty());
  connections.Heard("b:1", At(3));
  EXPECT_THAT(LookAt(connections, {"a:1", "b:1"}, 4.0), IsEmpty());
  EXPECT_THAT(LookAt(connections, {}, 5.4), ElementsAre("a:1"));
  EXPECT_THAT(LookAt(connections, {"a:1"}, 6.8), IsEmpty()) << "another one";
  EXPECT_THAT(LookAt(connections, {}, 7.4), IsEmpty());
}

TEST(SilentConnections, AListThatTakesItsTimeMakesNobodyOlder) {
  SilentConnections connections;
  EXPECT_THAT(connections.Look({"a:1"}, At(0), At(4)), IsEmpty());
  EXPECT_THAT(connections.Look({"a:1"}, At(5), At(9)), IsEmpty());
  EXPECT_THAT(connections.Look({"a:1"}, At(7), At(7)), ElementsAre("a:1"));
}

TEST(SilentConnections, PeersAreNamedAsGrpcNamesThem) {
  EXPECT_EQ(PeerOfGrpc("ipv4:10.1.2.3:4567"), "10.1.2.3:4567");
  EXPECT_EQ(PeerOfGrpc("ipv6:%5B::1%5D:4567"), "[::1]:4567");
  EXPECT_EQ(PeerOfGrpc("ipv6:%5Bfe80::1%252%5D:4567"), "[fe80::1]:4567");
  // Of port 7070: one that listens, two that stand, one that ends; and one of another port.
  constexpr char kTable[] =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"
      "   0: 00000000:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n"
      "   1: 0100007F:1B9E 0302010A:11D7 01 00000000:00000000 00:00000000 00000000\n"
      "   2: 0100007F:1B9E 0100007F:0001 06 00000000:00000000 00:00000000 00000000\n"
      "   3: 0100007F:1B9F 0100007F:0002 01 00000000:00000000 00:00000000 00000000\n"
      "   4: nonsense\n";
  EXPECT_THAT(PeersAt({{}, 7070}, kTable), ElementsAre("10.1.2.3:4567"));
  constexpr char kTable6[] =
      "   0: 0000000000000000FFFF00000100007F:1B9E 0000000000000000FFFF00000302010A:11D7 01 0\n"
      "   1: 00000000000000000000000001000000:1B9E 00000000000000000000000001000000:11D7 01 0\n";
  EXPECT_THAT(PeersAt({{}, 7070}, kTable6), ElementsAre("10.1.2.3:4567", "[::1]:4567"));
}

TEST(SilentConnections, ThoseAtAnotherAddressWithThatPortAreAnothersProcess) {
  constexpr char kTable[] =
      "   1: 0100007F:1B9E 0302010A:11D7 01 0\n"
      "   2: 0200007F:1B9E 0302010A:11D8 01 0\n";
  EXPECT_THAT(PeersAt({{"127.0.0.1"}, 7070}, kTable), ElementsAre("10.1.2.3:4567"));
  EXPECT_THAT(PeersAt({{"127.0.0.2", "[::1]"}, 7070}, kTable), ElementsAre("10.1.2.3:4568"));
  EXPECT_THAT(PeersAt({HostsOf("0.0.0.0:7070"), 7070}, kTable), SizeIs(2));
}

TEST(SilentConnections, HostsAreThoseThatAServerListensOn) {
  EXPECT_THAT(HostsOf("127.0.0.1:0"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(HostsOf("[::1]:0"), ElementsAre("[::1]"));
  EXPECT_THAT(HostsOf("localhost:0"), Contains("127.0.0.1"));
  EXPECT_THAT(HostsOf("0.0.0.0:0"), IsEmpty());
  EXPECT_THAT(HostsOf("[::]:0"), IsEmpty());
}

TEST(SilenceWatch, CountsAndNamesThemAndHearsByGrpcsName) {
  Refusals refusals;
  SilenceWatch watch(&refusals);
  watch.Look({"10.0.0.1:5", "[fe80::1]:6"}, At(0), At(0));
  watch.Heard("ipv6:%5Bfe80::1%252%5D:6");
  ::testing::internal::CaptureStderr();
  watch.Look({"10.0.0.1:5", "[fe80::1]:6"}, At(4), At(4));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(refusals.of(Refusal::kHalfOpen), 1u);
  EXPECT_THAT(log, HasSubstr("made no call, from 10.0.0.1:5"));
}

TEST(SilenceWatch, WorksWhereNobodyCounts) {
  SilenceWatch watch(nullptr);
  watch.Look({"10.0.0.1:5"}, At(0), At(0));
  watch.Look({"10.0.0.1:5"}, At(4), At(4));
  watch.Look({}, At(5), At(5));
}

}  // namespace
}  // namespace longwave
