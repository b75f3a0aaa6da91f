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
#include "tests/intruder/member.h"
#include "tests/intruder/secured_run.h"

namespace longwave {
namespace {

using Liar = InRun;

RoundReport Report(uint64_t round, size_t hashes) {
  return {.round = static_cast<uint32_t>(round),
          .segment_hashes = std::vector<uint64_t>(hashes, 7)};
}

TEST_F(Liar, EndsTheRunForItselfAlone) {
  const auto member = GuestMember::Join(run_, run_->NewName("liar"));
  ASSERT_NE(member, nullptr);
  member->BecomeActive();
  const auto say = [&](std::vector<RoundReport> rounds, std::optional<FinalReport> final,
                       const std::string& failure = "") {
    WorkerHeartbeat lie = member->heartbeat();
    lie.rounds = std::move(rounds);
    lie.final = std::move(final);
    lie.failure = failure;
    return member->client().Heartbeat(lie).status();
  };
  const size_t segments = member->guest().layout.segments().size();
  const FinalReport weights{.model_file = "/nowhere/model.safetensors"};
  // Rounds that no shard has opened.
  const uint64_t finished = run_->Status().record_count;
  say({Report(finished + 500, segments)}, weights).IgnoreError();
  EXPECT_TRUE(absl::IsUnavailable(
      say({Report(RoundCount(member->guest().config) - 1, segments)}, weights)));
  // Another number of hashes than of segments.
  EXPECT_TRUE(absl::IsInvalidArgument(say({Report(finished + 501, segments + 1)}, weights)));
  EXPECT_TRUE(Eventually("rounds are finished all the same", [&] {
    say({}, weights).IgnoreError();
    return run_->Status().record_count >= finished + 3;
  }));
  // A failure beside a final report.
  EXPECT_TRUE(say({}, weights, "all is lost").ok());
  const uint64_t then = run_->Status().record_count;
  EXPECT_TRUE(Eventually("and after it", [&] { return run_->Status().record_count >= then + 3; }));
  const RunStatus status = run_->Status();
  EXPECT_EQ(status.phase, RunPhase::kTraining);
  EXPECT_EQ(status.model_file, "");
  EXPECT_TRUE(run_->Running());
}

}  // namespace
}  // namespace longwave
