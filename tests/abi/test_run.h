#ifndef LONGWAVE_TESTS_ABI_TEST_RUN_H_
#define LONGWAVE_TESTS_ABI_TEST_RUN_H_

#include <sys/wait.h>

#include <cstdio>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/config/config.h"
#include "common/rpc/coordinator_client.h"
#include "gtest/gtest.h"
#include "server/service/coordinator_service.h"
#include "server/service/shard_service.h"

namespace longwave {

// A run's coordinator and shard in this process, for workers of any kind.
class TestRun {
 public:
  explicit TestRun(const Overrides& settings)
      : config_(*ParseConfig("{}", "the test's run", With(settings))),
        coordinator_(*CoordinatorService::Start({.config = config_, .address = "127.0.0.1:0"})) {
    config_.cluster.coordinator = coordinator_->address();
    coordinated_ = std::async([this] { return coordinator_->Run(stop_.get_token()); });
    shard_ = *ShardService::Start({.config = config_,
                                   .coordinator = address(),
                                   .data_endpoint = "tcp://127.0.0.1:0",
                                   .control_address = "127.0.0.1:0"});
    sharded_ = std::async([this] { return shard_->Run(stop_.get_token(), [] {}); });
  }
  ~TestRun() {
    stop_.request_stop();
    EXPECT_EQ(sharded_.get(), absl::OkStatus());
    EXPECT_EQ(coordinated_.get(), absl::OkStatus());
  }

  const RunConfig& config() const { return config_; }
  std::string address() const { return config_.cluster.coordinator; }
  RunStatus status() const {
    return *CoordinatorClient::Connect(address())->GetStatus(/*round_records_from=*/kRoundNever);
  }

 private:
  static Overrides With(Overrides settings) {
    const Overrides common = {"run.preset=diloco",    "run.shards=1",
                              "model.kind=external",  "cluster.heartbeat_interval_s=0.05",
                              "train.warmup_steps=0", "train.learning_rate=0.3",
                              "sync.inner_steps=10",  "cluster.start_timeout_s=60"};
    settings.insert(settings.begin(), common.begin(), common.end());
    return settings;
  }

  RunConfig config_;
  std::stop_source stop_;
  std::unique_ptr<CoordinatorService> coordinator_;
  std::unique_ptr<ShardService> shard_;
  std::future<absl::Status> coordinated_;
  std::future<absl::Status> sharded_;
};

struct Ran {
  int status = 0;  // of exit
  std::string output;
  bool operator==(const Ran&) const = default;
};

// Runs a command of the shell and reads its standard output.
inline Ran RunCommand(const std::string& command) {
  Ran ran;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {.status = -1};
  char line[256];
  while (fgets(line, sizeof line, pipe) != nullptr) ran.output += line;
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_ABI_TEST_RUN_H_
