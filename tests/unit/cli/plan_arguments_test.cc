#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/plan/arguments.h"
#include "cli/plan/from_run.h"
#include "cli/plan/report.h"
#include "common/base/new_file.h"
#include "common/config/config.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using testing::HasSubstr;

TEST(PlanArguments, RatesAndTimesHaveUnits) {
  EXPECT_EQ(*ParseRate("--up", "100Mbit"), 12.5e6);
  EXPECT_EQ(*ParseRate("--up", "1.5Gbit"), 187.5e6);
  EXPECT_EQ(*ParseRate("--up", "800kbit"), 1e5);
  EXPECT_EQ(*ParseSeconds("--rtt", "40ms"), 0.04);
  for (const char* text : {"", "100", "0Mbit", "-1Mbit", "100MB", "Mbit", "1e400Mbit"}) {
    EXPECT_THAT(std::string(ParseRate("--up", text).status().message()),
                HasSubstr(", wanted a rate such as 100Mbit"))
        << text;
  }
  for (const char* text : {"", "40", "-1s", "inf", "1 day"}) {
    EXPECT_THAT(std::string(ParseSeconds("--rtt", text).status().message()),
                HasSubstr(", wanted a time such as 40ms"))
        << text;
  }
}

TEST(PlanArguments, WorkersAndShardsTakeWhatIsLeftOutFromTheOthers) {
  const PlanWorkers like{.link = {1, 2}, .round_trip_s = 3, .step_s = 4};
  const PlanWorkers workers = ParseWorkers("count=2,down=8Mbit,step=0.5s", like).value();
  EXPECT_EQ(workers.count, 2u);
  EXPECT_EQ(workers.link.up, 1);
  EXPECT_EQ(workers.link.down, 1e6);
  EXPECT_EQ(workers.round_trip_s, 3);
  EXPECT_EQ(workers.step_s, 0.5);
  const std::vector<PlanLink> shards = ParseShards("count=3,up=8Mbit", {1, 2}).value();
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_EQ(shards[2].up, 1e6);
  EXPECT_EQ(shards[2].down, 2);
  EXPECT_EQ(ParseWorkers("speed=3", like).status().message(),
            "--worker: got speed=3, wanted key=value with one of the keys count, down, rtt, "
            "step, up");
  EXPECT_EQ(ParseWorkers("count=0", like).status().message(),
            "--worker: got 0 for count, wanted a whole number from 1 to 65536");
  EXPECT_FALSE(ParseShards("count", {}).ok());
}

TEST(PlanArguments, KernelsAreAllThree) {
  PlanRates rates;
  EXPECT_TRUE(ParseKernels("encode=1,decode=2,merge=3", &rates).ok());
  EXPECT_EQ(rates.encode, 1e6);
  EXPECT_EQ(rates.merge, 3e6);
  EXPECT_TRUE(ParseDisk("rate=200,sync=2ms", &rates).ok());
  EXPECT_EQ(rates.disk, 200e6);
  EXPECT_EQ(rates.disk_sync_s, 0.002);
  EXPECT_THAT(std::string(ParseKernels("encode=1", &rates).message()),
              HasSubstr("wanted encode, decode and merge"));
  EXPECT_FALSE(ParseKernels("encode=0,decode=1,merge=1", &rates).ok());
}

class FromRun : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    ASSERT_TRUE(WriteFile(path, text).ok());
  }
  TestFolder folder_;
};

TEST_F(FromRun, StepsKernelsAndLinksAreThoseOfItsRecords) {
  EXPECT_THAT(std::string(FiguresOf(folder_.path()).status().message()),
              HasSubstr("has no config.yaml, wanted the folder or the name of a run"));
  const RunConfig config =
      ParseConfig("{}", "test", {"run.workers=2", "sync.inner_steps=10"}).value();
  Write("config.yaml", FormatConfig(config));
  EXPECT_THAT(std::string(FiguresOf(folder_.path()).status().message()),
              HasSubstr("has no round of a worker yet"));
  for (const char* worker : {"worker-0", "worker-1"}) {
    Write(absl::StrCat("logs/", worker, ".log"),
          "2026-11-28 11:58:19.000Z rotterdam info round 4/6  step 40/60  loss 5.917\n"
          "2026-11-28 11:58:19.000Z rotterdam info computed for 20.00 s, synced for 5.00 s: "
          "encoding 2.00, checkpoint 0.00, sending 0.00, journal 0.00, waiting 2.00, decoding "
          "1.00, other 0.00\n");
  }
  Write("metrics.jsonl",
        "{\"round\":3,\"step\":40,\"bytes_pushed\":1000000,\"bytes_pulled\":3000000}\n");
  const absl::StatusOr<RunFigures> figures = FiguresOf(folder_.path());
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->config, config);
  EXPECT_EQ(figures->step_s, 0.5);
  EXPECT_EQ(figures->link, 1e6);  // 4 MB while both waited, 4 s
  EXPECT_GT(figures->encode, 0);
  EXPECT_EQ(figures->decode, 2 * figures->encode);
  EXPECT_THAT(figures->seconds, HasSubstr("computing 5.00"));
}

TEST(PlanReport, SaysWhatIsAFormula) {
  Plan plan{.method = "longwave", .inner_steps = 30, .round_s = 10};
  plan.round = {.up = 1e6, .down = 2e6};
  plan.parts = {{.kind = PlanPart::Kind::kShardIn, .shard = 2, .seconds = 1.5}};
  plan.price = 3;
  const PlanReport report{.methods = {{.plan = plan, .binds = "B", .change = "C", .loss = "L"}},
                          .left_out = {"why not"},
                          .steps_from = "given",
                          .links_from = "given",
                          .kernels_from = "measured",
                          .disk_from = "measured"};
  const std::string text = PlanText(report);
  for (const char* wanted :
       {"up 1.0 MB, down 2.0 MB a round and worker; 360.0 MB, 720.0 MB an hour",
        "shard 2's link in 1.50", "price 3.00", "the method fixes H", "left out: why not",
        "Bytes: formula", "kernels measured"}) {
    EXPECT_THAT(text, HasSubstr(wanted));
  }
  const auto json = nlohmann::json::parse(PlanJson(report));
  const auto& method = json["methods"][0];
  EXPECT_EQ(method["bytes_round_worker"]["up"], 1e6);
  EXPECT_EQ(method["bytes_hour_worker"]["down"], 720e6);
  EXPECT_EQ(method["sync_parts"][0]["part"], "shard 2's link in");
  EXPECT_TRUE(method["auto_inner_steps"].is_null());
  EXPECT_EQ(json["basis"]["bytes"], "formula");
  EXPECT_THAT(json["basis"]["seconds"], HasSubstr("kernels measured"));
  EXPECT_THAT(json["basis"]["loss"], HasSubstr("measured"));
}

}  // namespace
}  // namespace longwave
