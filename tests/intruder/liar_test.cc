// A member whose word is false, at the coordinator of a secured run that goes on training
// meanwhile.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/config.h"
#include "tests/intruder/guest.h"
#include "tests/intruder/secured_run.h"

namespace longwave {
namespace {

// A member that takes part in the run by its heartbeats alone.
class Liar : public ::testing::Test {
 protected:
  void SetUp() override {
    run_ = SecuredRun::Get();
    ASSERT_NE(run_, nullptr) << "there is no run to lie to";
    const auto guest = Admit(run_, run_->NewName("liar"));
    ASSERT_TRUE(guest.has_value());
    rounds_ = static_cast<uint32_t>(RoundCount(guest->config));
    segments_ = guest->layout.segments().size();
    client_ = run_->As(guest->folder);
    absl::StatusOr<uint32_t> index;
    Answer([&] {
      index = client_->Register(guest->Registration(1));
      return index.status();
    }).IgnoreError();
    ASSERT_TRUE(index.ok()) << index.status();
    heartbeat_ = {.worker = *index, .incarnation = 1, .ready_round = 0};
    ASSERT_TRUE(Eventually("it takes part", [&] {
      const auto reply = client_->Heartbeat(heartbeat_);
      if (!reply.ok() || !reply->membership.has_value()) return false;
      heartbeat_.known_epoch = reply->membership->epoch;
      for (const longwave::Member& member : reply->membership->members) {
        if (member.worker == *index && member.first_round != kRoundNever) return true;
      }
      return false;
    }));
  }

  absl::Status Say(std::vector<RoundReport> rounds, std::optional<FinalReport> final,
                   const std::string& failure = "") {
    WorkerHeartbeat lie = heartbeat_;
    lie.rounds = std::move(rounds);
    lie.final = std::move(final);
    lie.failure = failure;
    return client_->Heartbeat(lie).status();
  }
  RoundReport Report(uint64_t round, size_t hashes) const {
    return {.round = static_cast<uint32_t>(round),
            .segment_hashes = std::vector<uint64_t>(hashes, 7)};
  }

  SecuredRun* run_ = nullptr;
  std::unique_ptr<CoordinatorClient> client_;
  WorkerHeartbeat heartbeat_;
  uint32_t rounds_ = 0;  // of the run
  size_t segments_ = 0;
};

TEST_F(Liar, EndsTheRunForItselfAlone) {
  const FinalReport weights{.model_file = "/nowhere/model.safetensors"};
  // Rounds that no shard has opened.
  const uint64_t finished = run_->Status().record_count;
  Say({Report(finished + 500, segments_)}, weights).IgnoreError();
  EXPECT_TRUE(absl::IsUnavailable(Say({Report(rounds_ - 1, segments_)}, weights)));
  // Another number of hashes than of segments.
  EXPECT_TRUE(absl::IsInvalidArgument(Say({Report(finished + 501, segments_ + 1)}, weights)));
  EXPECT_TRUE(Eventually("rounds are finished all the same", [&] {
    Say({}, weights).IgnoreError();
    return run_->Status().record_count >= finished + 3;
  }));
  // A failure beside a final report.
  EXPECT_TRUE(Say({}, weights, "all is lost").ok());
  const uint64_t then = run_->Status().record_count;
  EXPECT_TRUE(Eventually("and after it", [&] { return run_->Status().record_count >= then + 3; }));
  const RunStatus status = run_->Status();
  EXPECT_EQ(status.phase, RunPhase::kTraining);
  EXPECT_EQ(status.model_file, "");
  EXPECT_TRUE(run_->Running());
}

}  // namespace
}  // namespace longwave
