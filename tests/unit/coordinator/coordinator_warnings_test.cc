// Warnings: in the log once, in the status from then on.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class CoordinatorWarningsTest : public CoordinatorTest {
 protected:
  std::vector<CoordinatorEffect> Say(uint32_t worker, std::vector<std::string> warnings) {
    WorkerHeartbeat heartbeat = Beat(worker);
    heartbeat.warnings = std::move(warnings);
    return Step(heartbeat);
  }
  // The texts of the notices that are warnings.
  static std::vector<std::string> Warned(const std::vector<CoordinatorEffect>& effects) {
    std::vector<std::string> texts;
    for (const Notice& notice : All<Notice>(effects)) {
      if (notice.is_warning) texts.push_back(notice.text);
    }
    return texts;
  }
  std::vector<std::string> Shown() {
    std::vector<std::string> texts;
    for (const Warning& warning : Status().warnings) texts.push_back(SentenceOf(warning));
    return texts;
  }
  // Both of two workers report the round with these losses.
  std::vector<std::string> Round(uint32_t round, std::optional<double> loss,
                                 std::optional<double> other_loss) {
    RoundReport report = Report(round), other = Report(round);
    report.train_loss = loss;
    other.train_loss = other_loss;
    Step(Beat(0, {report}));
    return Warned(Step(Beat(1, {other})));
  }
};

TEST_F(CoordinatorWarningsTest, AWorkersWarningIsToldOnceForEachWorkerAndText) {
  Begin(Options(2, 1));
  EXPECT_THAT(Warned(Say(0, {"no seed", "no loss"})),
              ElementsAre("worker-0: no seed", "worker-0: no loss"));
  EXPECT_THAT(Warned(Say(0, {"no seed"})), IsEmpty());
  EXPECT_THAT(Warned(Say(1, {"no seed"})), ElementsAre("worker-1: no seed"));
  EXPECT_THAT(Shown(), ElementsAre("worker-0: no seed", "worker-0: no loss", "worker-1: no seed"));
}

TEST_F(CoordinatorWarningsTest, OneThatComesWhileTheRunWaitsOrIsOverIsNotLost) {
  Make(Options(2, 1));
  Step(Shard(0));
  Step(Worker(0));
  Say(0, {"early"});
  Step(StopRequested{"enough"});
  EXPECT_THAT(Warned(Say(0, {"late"})), ElementsAre("worker-0: late"));
  EXPECT_THAT(Shown(), ElementsAre("worker-0: early", "worker-0: late"));
}

// No worker makes the record large, or hides another one's warnings.
TEST_F(CoordinatorWarningsTest, ThereAreOnlySoManyAndSoLongOnes) {
  Begin(Options(2, 1));
  for (int i = 0; i < 40; ++i) Say(0, {absl::StrCat(i, std::string(5000, 'x'))});
  EXPECT_THAT(Shown(), SizeIs(17));
  EXPECT_THAT(Shown()[15], StartsWith("worker-0: 15x"));
  EXPECT_EQ(Status().warnings[15].sentence.size(), 1024u);
  EXPECT_EQ(Shown()[16], "worker-0: has further warnings, which its log shows");
  Say(1, {"heard"});
  EXPECT_EQ(Shown()[17], "worker-1: heard");
}

TEST_F(CoordinatorWarningsTest, AllWorkersTogetherHaveALimitToo) {
  Begin(Options(20, 1));
  for (uint32_t worker = 0; worker < 20; ++worker) {
    for (int i = 0; i < 16; ++i) Say(worker, {absl::StrCat(i)});
  }
  EXPECT_THAT(Shown(), SizeIs(257));
  EXPECT_EQ(Shown()[256], "one of the workers: has further warnings, which its log shows");
}

TEST_F(CoordinatorWarningsTest, TheyAreDurableBeforeTheyAreAnswered) {
  Begin(Options(2, 1));
  coordinator_->Saved();
  Say(0, {"no seed"});
  ASSERT_TRUE(coordinator_->Unsaved(absl::UnixEpoch()).has_value());
  coordinator_.emplace(Options(2, 1), coordinator_->Export(absl::UnixEpoch()));
  EXPECT_THAT(Warned(Say(0, {"no seed"})), IsEmpty());
  EXPECT_THAT(Shown(), ElementsAre("worker-0: no seed"));
}

TEST_F(CoordinatorWarningsTest, WorkersWithTheSameDataAreNamed) {
  Begin(Options(2, 1));
  EXPECT_THAT(Round(0, 2.5, 2.5), IsEmpty());
  EXPECT_THAT(Round(1, 2.25, 2.25), IsEmpty());
  const auto warned = Round(2, 2.125, 2.125);
  ASSERT_THAT(warned, SizeIs(1));
  EXPECT_THAT(warned[0], StartsWith("worker-0 and worker-1 have had the same training loss, to the "
                                    "last bit, for 3 rounds up to round 2: they train on the same "
                                    "data in the same order"));
  EXPECT_THAT(warned[0], HasSubstr("wanted other data at each worker"));
  EXPECT_THAT(Round(3, 2, 2), IsEmpty());
  EXPECT_EQ(Status().warnings[0].worker, "");
}

TEST_F(CoordinatorWarningsTest, OfManyWorkersWithTheSameDataSomeAreNamed) {
  Begin(Options(7, 1));
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t worker = 0; worker < 7; ++worker) {
      RoundReport report = Report(round);
      report.train_loss = 3 - 0.25 * round;
      Step(Beat(worker, {report}));
    }
  }
  ASSERT_THAT(Shown(), SizeIs(1));
  EXPECT_THAT(Shown()[0], StartsWith("worker-0, worker-1, worker-2, worker-3 and 3 more have had"));
}

TEST_F(CoordinatorWarningsTest, LossesThatDifferOrAreNotKnownAreNoSignOfTheSameData) {
  Begin(Options(2, 1));
  for (uint32_t round = 0; round < 4; ++round)
    EXPECT_THAT(Round(round, 3 - 0.25 * round, 3.5 - 0.25 * round), IsEmpty());
  for (uint32_t round = 4; round < 9; ++round)
    EXPECT_THAT(Round(round, std::nullopt, std::nullopt), IsEmpty());
  EXPECT_THAT(Shown(), IsEmpty());
}

}  // namespace
}  // namespace longwave
