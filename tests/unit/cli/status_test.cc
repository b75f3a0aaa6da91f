#include "cli/status.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/config/config.h"

namespace longwave {
namespace {

using Json = nlohmann::json;

TEST(StatusJson, OfARunThatHasNotBegunHasNoNumbersThatNobodyKnows) {
  const Json json = Json::parse(FormatStatusJson(DefaultConfig(), RunStatus()));
  EXPECT_EQ(json["phase"], "waiting");
  EXPECT_EQ(json["rounds"], 0);
  EXPECT_EQ(json["rounds_of"], RoundCount(DefaultConfig()));
  for (const char* unknown : {"seconds_left", "train_loss", "val_loss"})
    EXPECT_TRUE(json[unknown].is_null()) << unknown;
  EXPECT_TRUE(json["workers"].empty());
  EXPECT_EQ(json["replicas_equal"], false);
}

TEST(StatusJson, HasTheIntervalThatIsFitted) {
  RunConfig config = DefaultConfig();
  EXPECT_TRUE(Json::parse(FormatStatusJson(config, RunStatus())).at("interval").is_null());
  config.sync.inner_steps = 0;
  const RunStatus status{.interval = IntervalStatus{.inner_steps = 28,
                                                    .first_round = 3,
                                                    .changes = 1,
                                                    .reason = "a sync costs 0.3 s",
                                                    .rounds = 11,
                                                    .lost_share = 0.04}};
  const Json json = Json::parse(FormatStatusJson(config, status));
  EXPECT_EQ(json["rounds_of"], 11);
  EXPECT_EQ(json["interval"], Json({{"inner_steps", 28},
                                    {"first_round", 3},
                                    {"changes", 1},
                                    {"reason", "a sync costs 0.3 s"},
                                    {"lost_share", 0.04}}));
}

TEST(StatusJson, TellsWhatPeopleAreShown) {
  RunConfig config = DefaultConfig();
  config.run.steps = 100;
  config.sync.inner_steps = 10;
  RunStatus status{.phase = RunPhase::kTraining, .parameters = 1000, .seconds = 4, .secured = true};
  status.members.resize(2);
  for (MemberStatus& member : status.members) {
    member.state = {.phase = WorkerPhase::kTraining,
                    .step = 20,
                    .round = 2,
                    .train_loss = 2.5,
                    .tokens = 512,
                    .bytes = {100, 200, 80, 160}};
  }
  status.members[1].member = {.worker = 1, .name = "w\033[2J"};
  status.members[1].state.phase = WorkerPhase::kExpelled;
  status.members[1].state.train_loss.reset();
  status.members[1].state.ranks = 8;
  status.shards.resize(1);
  status.shards[0].trouble = "its disk is full";
  status.record_count = 1;
  status.records = {{.round = 1, .step = 20, .tokens_per_second = 77}};
  status.refusals = {{"token", 3}};
  status.warnings = {{"worker-1", "no seed"}};
  const std::string text = FormatStatusJson(config, status);
  EXPECT_EQ(text.find('\033'), std::string::npos);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["rounds"], 2);
  EXPECT_EQ(json["rounds_of"], 10);
  EXPECT_EQ(json["steps"], 20);
  EXPECT_EQ(json["seconds_left"], 16);
  EXPECT_EQ(json["tokens_per_second"], 77);
  EXPECT_EQ(json["bytes_pushed"], 200);
  EXPECT_EQ(json["payload_bytes_pulled"], 320);
  EXPECT_EQ(json["workers"][1]["state"], "expelled");
  EXPECT_EQ(json["workers"][0]["ranks"], 1);
  EXPECT_EQ(json["workers"][1]["ranks"], 8);
  EXPECT_EQ(json["shards"][0]["state"], "trouble");
  EXPECT_EQ(json["trouble"], Json({"shard-0 takes no pushes: its disk is full"}));
  EXPECT_EQ(json["warnings"], Json({"worker-1: no seed"}));
  EXPECT_EQ(json["workers"][0]["train_loss"], 2.5);
  EXPECT_TRUE(json["workers"][1]["train_loss"].is_null());
  EXPECT_EQ(json["refusals"], Json({{"token", 3}}));
}

}  // namespace
}  // namespace longwave
