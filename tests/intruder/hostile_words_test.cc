// Hostile texts of processes: printed by others, they control no terminal, forge no line and fill
// no log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/process.h"
#include "common/base/new_file.h"
#include "common/base/utf8.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/layout/layout.h"
#include "common/rpc/coordinator_client.h"
#include "common/security/credentials.h"
#include "tests/intruder/secured_run.h"
#include "tests/support/held_port.h"
#include "tests/support/tcp_client.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Clears a screen in two ways, turns it red and the direction of writing, and looks like a line of
// its own.
constexpr char kEvil[] =
    "evil\n2026-01-01 00:00:00.000 coordinator info forged\r\033[2J\302\2332J\033[31m\342\200\256";
constexpr char kEvilShown[] =
    "evil\\n2026-01-01 00:00:00.000 coordinator info forged\\r\\x1b[2J\\xc2\\x9b2J\\x1b[31m\\xe2"
    "\\x80\\xae";

class HostileWords : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const binaries = std::getenv("LONGWAVE_BIN");
    ASSERT_NE(binaries, nullptr) << "LONGWAVE_BIN: got nothing, wanted the folder of longwave";
    binaries_ = binaries;
    static int tests = 0;
    root_ = (std::filesystem::path(::testing::TempDir()) /
             absl::StrCat("longwave-words-", getpid(), "-", tests++))
                .string();
    std::filesystem::create_directories(root_);
    ASSERT_TRUE(WriteFile(root_ + "/run.yaml",
                          absl::StrCat("run: {preset: diloco, steps: 200, workers: 1,"
                                       " shards: 1}\n"
                                       "model: {d_model: 32, layers: 1, heads: 2, context: 32}\n"
                                       "train: {batch: 1, threads: 1, device: cpu}\n"
                                       "sync: {inner_steps: 20}\n"
                                       "cluster: {coordinator: '",
                                       port_.address(), "', heartbeat_timeout_s: 120}\n"),
                          kPublicFile)
                    .ok());
    const auto config = LoadConfig(root_ + "/run.yaml", {});
    ASSERT_TRUE(config.ok()) << config.status();
    settings_ = BindingSettings(*config);
    manifest_ = *GptManifest(config->model);
    const Layout layout = *Layout::Create(manifest_, LayoutOptionsFor(*config, manifest_));
    layout_hash_ = layout.hash();
    start_hashes_.resize(layout.segments().size());
    client_ = CoordinatorClient::Connect(port_.address(), absl::Seconds(20));
  }
  void TearDown() override {
    if (!HasFailure()) std::filesystem::remove_all(root_);
  }

  std::unique_ptr<Process> Start(const std::string& name, const std::vector<std::string>& argv) {
    auto process = Process::Start({.name = name,
                                   .argv = argv,
                                   .log_file = absl::StrCat(root_, "/", name, ".log"),
                                   .environment = {{"TERM", "xterm"}}});
    EXPECT_TRUE(process.ok()) << process.status();
    return *std::move(process);
  }

  // A process's output up to its end.
  std::string OutputOf(Process& process) {
    std::string output;
    EXPECT_TRUE(Eventually("the end of " + process.name(), [&] {
      while (const auto line = process.ReadLine()) absl::StrAppend(&output, *line, "\n");
      return !process.Running();
    }));
    while (const auto line = process.ReadLine()) absl::StrAppend(&output, *line, "\n");
    return output;
  }
  std::string LogOf(const std::string& process) {
    return ReadTextFile(absl::StrCat(root_, "/", process, ".log")).value_or("");
  }

  std::string Status() {
    auto status = Start("status", {binaries_ + "/longwave", "status", port_.address()});
    const std::string output = OutputOf(*status);
    EXPECT_TRUE(status->succeeded()) << LogOf("status");
    return output;
  }

  static void ExpectPlain(const std::string& text) {
    EXPECT_EQ(FindControlCharacter(text, "\n"), std::string::npos) << Printable(text);
    EXPECT_THAT(text, Not(HasSubstr("\n2026-01-01")));
  }

  RegisterWorker Worker() const {
    return {.name = "w",
            .identity = 5,
            .manifest = manifest_,
            .layout_hash = layout_hash_,
            .incarnation = 1,
            .settings = settings_,
            .start_hashes = start_hashes_};
  }

  std::string binaries_, root_, settings_;
  Manifest manifest_;
  uint64_t layout_hash_ = 0;
  std::vector<uint64_t> start_hashes_;
  const HeldPort port_{/*listens=*/false};
  std::unique_ptr<CoordinatorClient> client_;
};

TEST_F(HostileWords, StandEscapedInTheLogAndInTheStatus) {
  const auto coordinator =
      Start("coordinator", {binaries_ + "/longwave-server", "--role=coordinator", "--config",
                            root_ + "/run.yaml", "--metrics", ""});
  RegisterShard shard{.shard = 0,
                      .data_endpoint = "tcp://h:1",
                      .control_endpoint = "h:2",
                      .incarnation = 2,
                      .settings = settings_};
  RegisterWorker worker = Worker();
  worker.name = kEvil;
  ASSERT_EQ(Answer([&] { return client_->Register(worker).status(); }).code(),
            absl::StatusCode::kInvalidArgument);
  worker = Worker();
  worker.settings = absl::StrCat("evil: ", kEvil);
  EXPECT_EQ(client_->Register(worker).status().code(), absl::StatusCode::kInvalidArgument);
  worker = Worker();
  worker.settings += absl::StrCat("key\033[2J: \033[31m\n");
  EXPECT_EQ(client_->Register(worker).status().code(), absl::StatusCode::kInvalidArgument);
  shard.control_endpoint = kEvil;
  EXPECT_EQ(client_->Register(shard).status().code(), absl::StatusCode::kInvalidArgument);
  shard.control_endpoint = "h:2";
  ASSERT_TRUE(client_->Register(shard).ok());
  ASSERT_TRUE(client_->Register(Worker()).ok());
  ASSERT_TRUE(client_
                  ->Heartbeat(ShardHeartbeat{.shard = 0,
                                             .incarnation = 2,
                                             .known_epoch = 1,
                                             .knows_manifest = true,
                                             .trouble = kEvil})
                  .ok());
  const std::string troubled = Status();
  ExpectPlain(troubled);
  EXPECT_THAT(troubled, HasSubstr(absl::StrCat("trouble   shard-0 takes no pushes: ", kEvilShown)));

  ASSERT_TRUE(
      client_->Heartbeat(WorkerHeartbeat{.worker = 0, .incarnation = 1, .failure = kEvil}).ok());
  const std::string failed = Status();
  ExpectPlain(failed);
  EXPECT_THAT(failed,
              HasSubstr(absl::StrCat("state     failed, epoch 1: worker 0 (w): ", kEvilShown)));
  ExpectPlain(LogOf("coordinator"));
  EXPECT_THAT(LogOf("coordinator"),
              HasSubstr(absl::StrCat("the run is failed: worker 0 (w): ", kEvilShown)));
}

// By hand, as `longwave up` once turned gRPC's log off for its children alone.
TEST_F(HostileWords, OfStrangersDoNotFillTheLog) {
  const std::string state = root_ + "/state";
  const auto coordinator =
      Start("coordinator",
            {binaries_ + "/longwave-server", "--role=coordinator", "--config", root_ + "/run.yaml",
             "--metrics", "", "--set", "security.mode=on", "--state-dir", state});
  ASSERT_TRUE(Eventually("a coordinator", [&] { return coordinator->ReadLine().has_value(); }));
  const size_t before = LogOf("coordinator").size();
  for (int i = 0; i < 200; ++i) {
    const int fd = ConnectTo(port_.address());
    ASSERT_GE(fd, 0);
    constexpr char kNoTls[] = "GET / HTTP/1.0\r\n\r\n";
    EXPECT_EQ(write(fd, kNoTls, sizeof kNoTls - 1), ssize_t{sizeof kNoTls - 1});
    EXPECT_TRUE(HungUp(fd, kPatience));
    close(fd);
  }
  // An honest caller too, about which nothing is logged.
  const auto as_operator =
      CoordinatorClient::Connect(port_.address(), absl::Seconds(20), state + "/security/operator");
  EXPECT_TRUE(Answer([&] { return as_operator->GetStatus(0).status(); }).ok());
  const std::string log = LogOf("coordinator");
  EXPECT_LT(log.size() - before, 4000u) << log.substr(before, 2000);
  EXPECT_THAT(log, Not(HasSubstr("No match found")));
}

TEST_F(HostileWords, StandEscapedInATerminalWithTheLiveView) {
  // Without colours of our own: one that is there is the attacker's.
  const auto up = Start(
      "up", {"/usr/bin/env", "NO_COLOR=1", "python3", "-c",
             "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)", binaries_ + "/longwave",
             "up", root_ + "/run.yaml", "--name", "run", "--runs-dir", root_ + "/runs"});
  // The places of the run are taken before its own worker comes, and perhaps its shard.
  bool trains = false;
  ASSERT_TRUE(Eventually("a run that trains", [&] {
    if (client_->Register(Worker()).ok()) {
      client_
          ->Register(RegisterShard{.shard = 0,
                                   .data_endpoint = "tcp://h:1",
                                   .control_endpoint = "h:2",
                                   .incarnation = 2,
                                   .settings = settings_})
          .status()
          .IgnoreError();
    }
    trains = client_->GetStatus(0).value_or(RunStatus()).phase == RunPhase::kTraining;
    return trains || !up->Running();
  }));
  ASSERT_TRUE(trains) << OutputOf(*up);
  ASSERT_TRUE(
      client_->Heartbeat(WorkerHeartbeat{.worker = 0, .incarnation = 1, .failure = kEvil}).ok());
  const std::string output = OutputOf(*up);
  EXPECT_THAT(output, HasSubstr("\033[?25l")) << "no live view";
  EXPECT_THAT(output, HasSubstr("evil\\n2026-01-01"));
  for (const char* raw : {"\033[2J", "\033[31m", "\302\233", "\342\200\256", "\n2026-01-01"})
    EXPECT_THAT(output, Not(HasSubstr(raw)));
  const std::string summary = ReadTextFile(root_ + "/runs/run/summary.json").value_or("");
  EXPECT_THAT(summary, HasSubstr("evil"));
  ExpectPlain(summary);
  for (const char* process : {"coordinator", "shard-0"})
    ExpectPlain(ReadTextFile(absl::StrCat(root_, "/runs/run/logs/", process, ".log")).value_or(""));
}

}  // namespace
}  // namespace longwave
