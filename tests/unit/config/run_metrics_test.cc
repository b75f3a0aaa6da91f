#include "common/config/run_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/config/config.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

TEST(ShowRun, SaysWhatTheRunIsAndItsLimits) {
  RunConfig config = DefaultConfig();
  config.run.name = "mine";
  config.security.mode = "on";
  config.sync.inner_steps = 500;
  config.cluster.heartbeat_interval_s = 10;
  config.cluster.heartbeat_timeout_s = 60;
  config.cluster.grace_max_s = 900;
  config.cluster.snapshot_rounds = 50;
  for (const MetricPart part :
       {MetricPart::kCoordinator, MetricPart::kShard, MetricPart::kWorker}) {
    Metrics metrics(part);
    EXPECT_THAT(metrics.Page(), testing::Not(HasSubstr("longwave_run_info{")));
    ShowRun(config, &metrics);
    const std::string page = metrics.Page();
    EXPECT_THAT(page, HasSubstr("longwave_run_info{run=\"mine\",preset=\"longwave\",model=\"gpt\","
                                "signal=\"pseudo-gradient\",security=\"on\"} 1\n"));
    for (const char* line :
         {"inner_steps{run=\"mine\"} 500\n", "heartbeat_interval_seconds{run=\"mine\"} 10\n",
          "heartbeat_timeout_seconds{run=\"mine\"} 60\n", "round_grace_seconds{run=\"mine\"} 900\n",
          "snapshot_rounds{run=\"mine\"} 50\n"})
      EXPECT_THAT(page, HasSubstr(std::string("longwave_") + line));
  }
}

}  // namespace
}  // namespace longwave
