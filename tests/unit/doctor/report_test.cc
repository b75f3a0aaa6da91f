#include "cli/doctor/report.h"

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace longwave {
namespace {

const std::vector<Finding> kFindings = {
    {"gpu", Finding::Verdict::kOk, "H100", ""},
    {"shard 1", Finding::Verdict::kFailed, "refused\nby a wall", "open it"},
};

TEST(DoctorReport, HasOneLineForEachFindingWithItsRemedy) {
  const std::vector<std::string> lines = ReportLines(kFindings);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "ok       gpu          H100");
  EXPECT_EQ(lines[1], "failed   shard 1      refused by a wall; remedy: open it");
}

TEST(DoctorReport, AsJsonHasTheWorstVerdictAndEachFinding) {
  const nlohmann::json report = nlohmann::json::parse(ReportJson(kFindings));
  EXPECT_EQ(report["verdict"], "failed");
  ASSERT_EQ(report["findings"].size(), 2u);
  EXPECT_EQ(report["findings"][1]["part"], "shard 1");
  EXPECT_EQ(report["findings"][1]["verdict"], "failed");
  EXPECT_EQ(report["findings"][1]["what"], "refused by a wall");
  EXPECT_EQ(report["findings"][1]["remedy"], "open it");
}

TEST(DoctorReport, OfNothingIsWell) {
  EXPECT_TRUE(ReportLines({}).empty());
  EXPECT_EQ(nlohmann::json::parse(ReportJson({}))["verdict"], "ok");
}

}  // namespace
}  // namespace longwave
