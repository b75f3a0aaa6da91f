#include "cli/live_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/config/config.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using LiveJson = nlohmann::json;

class LiveDataTest : public testing::Test {
 protected:
  LiveDataTest() {
    status_.phase = RunPhase::kTraining;
    status_.members.resize(2);
    for (uint32_t i = 0; i < 2; ++i) {
      status_.members[i].member = {.worker = i, .name = absl::StrCat("w", i)};
      status_.members[i].state.phase = WorkerPhase::kTraining;
    }
  }
  // Both workers end a round of 10 s, of which worker 0 computes 9 and worker 1 computes 8.
  void EndRound() {
    const auto round = static_cast<uint32_t>(status_.records.size());
    RoundRecord record = {.round = round, .step = 10 * (round + 1), .seconds = 10.0 * (round + 1)};
    record.train_loss = 5.0 - round;
    status_.records.push_back(record);
    status_.record_count = status_.records.size();
    for (uint32_t i = 0; i < 2; ++i) {
      WorkerState& state = status_.members[i].state;
      state.round = round + 1;
      state.seconds_computing += 9 - i;
      state.seconds_syncing += 1 + i;
    }
  }
  LiveJson Update(const std::string& note = "") {
    return LiveJson::parse(data_.Update(status_, note, absl::FromUnixSeconds(1000)));
  }
  static std::vector<std::string> Texts(const LiveJson& events) {
    std::vector<std::string> texts;
    for (const LiveJson& event : events) texts.push_back(event["text"]);
    return texts;
  }

  LiveData data_{"a run", DefaultConfig()};
  RunStatus status_;
};

// A page makes of the whole and the news what the whole has later.
TEST_F(LiveDataTest, NewsExtendTheWhole) {
  EndRound();
  Update();
  LiveJson page = LiveJson::parse(data_.Whole());
  EXPECT_EQ(page["runs"][0]["name"], "a run");
  EXPECT_EQ(page["runs"][0]["configuration"]["run.preset"], DefaultConfig().run.preset);
  for (int i = 0; i < 3; ++i) {
    EndRound();
    if (i == 1) EndRound();
    const LiveJson news = Update();
    LiveJson& run = page["runs"][0];
    run["summary"] = news["run"]["summary"];
    page["made"] = news["made"];
    EXPECT_EQ(news["update"], page["update"].get<int>() + 1);
    page["update"] = news["update"];
    const auto extend = [](LiveJson& known, const LiveJson& more) {
      for (const auto& [name, values] : more.items())
        if (values.is_array()) known[name].insert(known[name].end(), values.begin(), values.end());
    };
    extend(run["rounds"], news["run"]["rounds"]);
    extend(run, {{"events", news["run"]["events"]}});
    for (size_t w = 0; w < 2; ++w) {
      extend(run["workers"][w], news["run"]["workers"][w]);
      run["workers"][w]["seconds"] = news["run"]["workers"][w]["seconds"];
    }
  }
  EXPECT_EQ(page, LiveJson::parse(data_.Whole()));
}

TEST_F(LiveDataTest, FiguresAreThoseOfTheStatus) {
  EndRound();
  EndRound();
  const LiveJson run = Update()["run"];
  EXPECT_EQ(run["summary"]["outcome"], "training");
  EXPECT_EQ(run["rounds"]["step"], LiveJson({10, 20}));
  EXPECT_EQ(run["rounds"]["train_loss"], LiveJson({5, 4}));
  EXPECT_EQ(run["rounds"]["round_seconds"], LiveJson({10, 10}));
  EXPECT_TRUE(run["rounds"]["validation_loss"][0].is_null());
  EXPECT_EQ(run["workers"][1]["compute_share"], LiveJson({0.8}));
  EXPECT_EQ(run["workers"][1]["round_seconds"], LiveJson({10}));
  EXPECT_EQ(run["workers"][1]["seconds"], LiveJson({{"computing", 16}, {"syncing", 4}}));
}

TEST_F(LiveDataTest, ATroubleIsAnEventOnceAndAWarningWhileItLasts) {
  EXPECT_THAT(
      Texts(Update()["run"]["events"]),
      ElementsAre("the run is training", "worker 0 (w0) takes part", "worker 1 (w1) takes part"));
  status_.members[1].state.phase = WorkerPhase::kLost;
  LiveJson run = Update("the coordinator does not answer")["run"];
  EXPECT_THAT(Texts(run["events"]),
              ElementsAre("worker 1 (w1) has left: lost", "the coordinator does not answer"));
  EXPECT_EQ(run["events"][0]["level"], "warning");
  EXPECT_EQ(run["summary"]["warnings"], LiveJson({"the coordinator does not answer"}));
  run = Update("the coordinator does not answer")["run"];
  EXPECT_TRUE(run["events"].empty());
  EXPECT_TRUE(Update()["run"]["summary"]["warnings"].empty());
}

TEST_F(LiveDataTest, AProcessThatIsNewCountsItsSecondsAgain) {
  EndRound();
  Update();
  EndRound();
  status_.members[0].state.seconds_computing = 1;
  status_.members[0].state.seconds_syncing = 0;
  EXPECT_TRUE(Update()["run"]["workers"][0]["round"].empty());
  EndRound();
  EXPECT_EQ(Update()["run"]["workers"][0]["compute_share"], LiveJson({0.9}));
}

TEST_F(LiveDataTest, ALineHasNoEndOfLineInIt) {
  status_.members[0].member.name = "w\n\ndata: x\u2028";
  status_.trouble = "a\nb\r\xff";
  const std::string news = data_.Update(status_, "", absl::FromUnixSeconds(1));
  for (const std::string& text : {news, data_.Whole()})
    EXPECT_EQ(text.find_first_of("\r\n\xff\xe2"), std::string::npos);
  EXPECT_THAT(news, HasSubstr("data: x"));
}

}  // namespace
}  // namespace longwave
