#include "cli/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/report/run_logs.h"
#include "cli/report/run_records.h"
#include "cli/report/thin.h"
#include "common/base/new_file.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using OrderedJson = nlohmann::ordered_json;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

TEST(Thin, TakesMeansOfWhatIsKnownOrTheLast) {
  const std::vector<double> values = {1, 3, kUnknown, 5, 7};
  EXPECT_THAT(Thin(values, 3, Thinning::kMean), ElementsAre(2, 5, 7));
  EXPECT_THAT(Thin({1, 2, 3, 4, 5}, 2, Thinning::kLast), ElementsAre(3, 5));
  EXPECT_THAT(Thin({1, 2}, 600, Thinning::kLast), ElementsAre(1, 2));
  EXPECT_THAT(Thin({}, 3, Thinning::kMean), ElementsAre());
  EXPECT_TRUE(std::isnan(Thin({kUnknown, kUnknown}, 1, Thinning::kMean)[0]));
}

class Report : public testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(File(name)).parent_path());
    ASSERT_TRUE(WriteFile(File(name), text).ok());
  }
  static std::string RoundLine(int round) {
    return absl::StrCat("{\"round\":", round, ",\"step\":", 10 * (round + 1),
                        ",\"train_loss\":", 5 - 0.0001 * round,
                        ",\"validation_loss\":null,\"tokens\":", 100 * round,
                        ",\"seconds\":", 2.5 * (round + 1), ",\"bytes_pushed\":", 1000 * round,
                        ",\"bytes_pulled\":7,\"members\":2,\"compute_share\":0.9123456789}\n");
  }

  TestFolder folder_;
};

TEST_F(Report, RoundsAreThinnedAndNotCut) {
  std::string lines = "a torn line\n{\"round\":";
  lines += "\n";
  for (int round = 0; round < 10'000; ++round) lines += RoundLine(round);
  Write("metrics.jsonl", lines);
  const OrderedJson rounds = RoundsOf(File("metrics.jsonl"));
  ASSERT_LE(rounds["step"].size(), kRoundPoints);
  EXPECT_GT(rounds["step"].size(), kRoundPoints / 2);
  EXPECT_EQ(rounds["step"].back(), 100'000);
  EXPECT_EQ(rounds["bytes_pushed"].back(), 9'999'000);
  EXPECT_EQ(rounds["round_seconds"].front(), 2.5);
  EXPECT_EQ(rounds["compute_share"].front(), 0.912346);
  EXPECT_TRUE(rounds["validation_loss"].front().is_null());
}

TEST_F(Report, WorkersAreReadFromTheirLogs) {
  Write(
      "logs/worker-0.log",
      "2026-11-28 11:58:19.000Z rotterdam info round 1/6  step 10/60  loss 5.917\n"
      "2026-11-28 11:58:19.000Z rotterdam info computed for 3.00 s, synced for 1.00 s: encoding "
      "0.25, checkpoint 0.25, sending 0.00, journal 0.10, waiting 0.40, decoding 0.00, other 0.00\n"
      "a line of the worker's own: computed for 9 s, synced for 9 s\n"
      "2026-11-28 11:58:29.000Z rotterdam info round 3/6  step 30/60  loss 4.1\n"
      "2026-11-28 11:58:29.000Z rotterdam info computed for 1.00 s, synced for 1.00 s: encoding "
      "0.25, checkpoint 0.00, sending 0.00, waiting 0.75, decoding 0.00, other 0.00\n");
  const OrderedJson workers = WorkersOf(ReadLogs(File("logs")));
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_EQ(workers[0]["name"], "worker-0");
  EXPECT_EQ(workers[0]["round"], OrderedJson({1, 3}));
  EXPECT_EQ(workers[0]["compute_share"], OrderedJson({0.75, 0.5}));
  EXPECT_EQ(workers[0]["round_seconds"], OrderedJson({nullptr, 5}));
  EXPECT_EQ(workers[0]["seconds"]["waiting"], 1.15);
  EXPECT_EQ(workers[0]["seconds"]["journal"], 0.1);
  EXPECT_EQ(workers[0]["seconds"]["computing"], 4.0);
}

TEST_F(Report, EventsAreThoseOfTheServersAndAllWarnings) {
  Write("logs/coordinator.log",
        "2026-11-28 11:58:08.770Z coordinator info metrics http://127.0.0.1:33515/metrics\n"
        "2026-11-28 11:58:18.914Z coordinator info worker 0 (worker-1) registered, 1 of 2\n");
  Write("logs/worker-0.log",
        "2026-11-28 11:58:10.000Z worker-0 warning no seed\n"
        "2026-11-28 11:58:11.000Z worker-0 info round 1/6\n");
  const OrderedJson events = EventsOf(ReadLogs(File("logs")));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["text"], "no seed");
  EXPECT_EQ(events[0]["level"], "warning");
  EXPECT_EQ(events[1]["process"], "coordinator");
}

TEST_F(Report, OfTooManyEventsTheMiddleIsLeftOut) {
  std::string lines;
  for (size_t i = 0; i < kEventsMax + 100; ++i) {
    absl::StrAppend(&lines, "2026-11-28 11:58:18.914Z coordinator info event ", i, "\n");
  }
  Write("logs/coordinator.log", lines);
  const OrderedJson events = EventsOf(ReadLogs(File("logs")));
  ASSERT_EQ(events.size(), kEventsMax + 1);
  EXPECT_EQ(events[kEventsMax / 2]["text"], "100 events are left out here; the logs have them");
  EXPECT_EQ(events.back()["text"], absl::StrCat("event ", kEventsMax + 99));
}

TEST_F(Report, IsOneFileThatQuotesWhateverALogSays) {
  Write("config.yaml", "run: {preset: diloco, steps: 600}\n");
  Write("metrics.jsonl", RoundLine(0));
  Write("logs/worker-0.log", "2026-11-28 11:58:10.000Z worker-0 warning </script><b>bold\n");
  const absl::Status written = WriteReport({folder_.path()}, File("report.html"));
  ASSERT_TRUE(written.ok()) << written;
  const auto page = ReportPage({folder_.path()});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(*page, HasSubstr("\\u003c/script>\\u003cb>bold"));
  EXPECT_THAT(*page, HasSubstr("\"sample\":null"));
  Write("sample.txt", "To be <i>or\nnot");
  EXPECT_THAT(*ReportPage({folder_.path()}), HasSubstr("\"sample\":\"To be \\u003ci>or\\nnot\""));
  EXPECT_THAT(*page, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(*page, Not(HasSubstr("/* data */")));
  EXPECT_THAT(*page, Not(HasSubstr("src=")));
}

TEST_F(Report, WantsTheFolderOfARun) {
  EXPECT_THAT(std::string(ReportPage({folder_.path()}).status().message()),
              HasSubstr("has no config.yaml, wanted the folder of a run of `longwave up`"));
}

}  // namespace
}  // namespace longwave
