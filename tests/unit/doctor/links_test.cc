// The doctor against real servers on loopback, with the answers of a run.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/doctor/measure.h"
#include "common/rpc/probe.h"
#include "common/rpc/rpc_server.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/idle_handlers.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

struct FakeCoordinator final : IdleCoordinator {
  absl::StatusOr<RunStatus> GetStatus(uint64_t) override { return status; }

  RunStatus status;
};

class DoctorLinks : public ::testing::Test {
 protected:
  void Start(bool is_secured) {
    RpcServerOptions of_coordinator, of_shard;
    if (is_secured) {
      auto authority = Authority::Make("test", absl::Now());
      ASSERT_TRUE(authority.ok());
      of_coordinator = {Credentials(**authority, CoordinatorIdentity()), &refusals_};
      of_shard = {Credentials(**authority, ShardIdentity(0)), &refusals_};
      member_ = Credentials(**authority, WorkerIdentity("a"));
    }
    auto shard_server = RpcServer::Start("127.0.0.1:0", &shard_, of_shard);
    ASSERT_TRUE(shard_server.ok()) << shard_server.status();
    shard_server_ = *std::move(shard_server);
    // Anything that listens will do for its data port.
    ShardStatus shard;
    shard.shard = {.shard = 0,
                   .data_endpoint = absl::StrCat("tcp://", shard_server_->address(),
                                                 "?key=", std::string(64, 'a')),
                   .control_endpoint = shard_server_->address()};
    ShardStatus not_there;
    not_there.shard.shard = 1;
    coordinator_.status.shards = {shard, not_there};
    coordinator_.status.shards_wanted = 2;
    auto server = RpcServer::Start("127.0.0.1:0", &coordinator_, of_coordinator);
    ASSERT_TRUE(server.ok()) << server.status();
    coordinator_server_ = *std::move(server);
    address_ = coordinator_server_->address();
  }

  std::string Credentials(const Authority& authority, const Identity& identity) {
    auto made = MakeCredentials(authority, {identity}, {"127.0.0.1"},
                                {.from = absl::Now() - absl::Minutes(1), .life = absl::Hours(1)});
    EXPECT_TRUE(made.ok()) << made.status();
    std::string folder = absl::StrCat(folder_.path(), "/", folders_++);
    EXPECT_TRUE(WriteCredentials(folder, *made).ok());
    return folder;
  }

  static void ExpectMeasured(const CoordinatorReading& reading) {
    ASSERT_TRUE(reading.status.ok()) << reading.status;
    ASSERT_TRUE(reading.control.round_trip.ok()) << reading.control.round_trip.status();
    ASSERT_TRUE(reading.clock.ok()) << reading.clock.status();
    // Both ends have one clock.
    EXPECT_LE(absl::AbsDuration(reading.clock->ahead), reading.clock->precision);
    ASSERT_TRUE(reading.speed.ok()) << reading.speed.status();
    EXPECT_GT(reading.speed->up_bytes_per_second, 0);
    EXPECT_GT(reading.speed->down_bytes_per_second, 0);
    EXPECT_EQ(reading.shards_wanted, 2u);
    ASSERT_EQ(reading.shards.size(), 1u) << "the other one has not registered";
    EXPECT_EQ(reading.shards[0].data.address.find("key"), std::string::npos);
    EXPECT_TRUE(reading.shards[0].data.round_trip.ok()) << reading.shards[0].data.address;
    EXPECT_TRUE(reading.shards[0].speed.ok()) << reading.shards[0].speed.status();
  }

  const TestFolder folder_;
  int folders_ = 0;
  Refusals refusals_;
  IdleShard shard_;
  FakeCoordinator coordinator_;
  std::unique_ptr<RpcServer> shard_server_, coordinator_server_;
  std::string address_, member_;
};

TEST_F(DoctorLinks, AreMeasuredInPlainText) {
  ASSERT_NO_FATAL_FAILURE(Start(false));
  ExpectMeasured(MeasureCoordinator(address_, ""));
}

TEST_F(DoctorLinks, AreMeasuredWithAMembersCredentials) {
  ASSERT_NO_FATAL_FAILURE(Start(true));
  ExpectMeasured(MeasureCoordinator(address_, member_));
}

TEST_F(DoctorLinks, ToASecuredRunAStrangerLearnsTheTimeAlone) {
  ASSERT_NO_FATAL_FAILURE(Start(true));
  const CoordinatorReading reading = MeasureCoordinator(address_, "");
  EXPECT_TRUE(absl::IsUnauthenticated(reading.status)) << reading.status;
  EXPECT_TRUE(reading.clock.ok()) << reading.clock.status();
  EXPECT_FALSE(reading.speed.ok());
  EXPECT_TRUE(reading.shards.empty());
}

TEST_F(DoctorLinks, AShardWhoseControlPortIsClosedIsStillThere) {
  ASSERT_NO_FATAL_FAILURE(Start(false));
  coordinator_.status.shards[0].shard.control_endpoint = "127.0.0.1:1";
  const CoordinatorReading reading = MeasureCoordinator(address_, "");
  ASSERT_EQ(reading.shards.size(), 1u);
  EXPECT_TRUE(reading.shards[0].data.round_trip.ok());
  EXPECT_THAT(std::string(reading.shards[0].speed.status().message()),
              ::testing::HasSubstr("control port 127.0.0.1:1"));
}

TEST_F(DoctorLinks, BytesOfAStrangerAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Start(true));
  const auto probe =
      ProbeClient::Connect(address_, Role::kCoordinator, ProbeClient::Trust::kNobody);
  EXPECT_TRUE(probe->GetTime().ok());
  EXPECT_TRUE(absl::IsUnauthenticated(probe->Measure(1, 0).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(probe->Measure(0, 1).status()));
}

TEST_F(DoctorLinks, MoreThanAMeasurementNeedsIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Start(false));
  const auto probe = ProbeClient::Connect(address_, Role::kCoordinator, ProbeClient::Trust::kPlain);
  EXPECT_TRUE(probe->Measure(kProbeBytesMax, kProbeBytesMax).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(probe->Measure(kProbeBytesMax + 1, 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(probe->Measure(0, kProbeBytesMax + 1).status()));
}

}  // namespace
}  // namespace longwave
