#include "tests/intruder/secured_run.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/new_file.h"
#include "common/rpc/channel.h"
#include "common/rpc/join.h"
#include "common/rpc/tls.h"
#include "common/security/credentials.h"
#include "longwave/v1/coordinator.grpc.pb.h"
#include "tests/support/http_get.h"

namespace longwave {
namespace {

SecuredRun* the_run = nullptr;

uint64_t CountOf(const std::vector<RefusalCount>& refusals, const std::string& reason) {
  for (const RefusalCount& refusal : refusals) {
    if (refusal.reason == reason) return refusal.count;
  }
  return 0;
}

class StopTheRun final : public ::testing::Environment {
  void TearDown() override { SecuredRun::Stop(); }
};
[[maybe_unused]] auto* const environment = ::testing::AddGlobalTestEnvironment(new StopTheRun);

}  // namespace

SecuredRun* SecuredRun::Get() {
  // A repetition gets another run, since the one before was stopped.
  static bool started = false;
  if (the_run == nullptr) {
    the_run = new SecuredRun;
    started = the_run->Begin({}, 2);
  }
  return started ? the_run : nullptr;
}

std::unique_ptr<SecuredRun> SecuredRun::Start(const std::vector<std::string>& settings,
                                              uint64_t rounds) {
  std::unique_ptr<SecuredRun> run(new SecuredRun);
  if (!run->Begin(settings, rounds)) run.reset();
  return run;
}

void SecuredRun::Stop() {
  delete the_run;
  the_run = nullptr;
}

SecuredRun::~SecuredRun() {
  if (up_ != nullptr) {
    up_->Signal(SIGINT);
    EXPECT_TRUE(Eventually("the end of the run's processes", [&] {
      while (up_->ReadLine()) {
      }
      return !up_->Running();
    }));
  }
  if (!::testing::UnitTest::GetInstance()->Failed()) std::filesystem::remove_all(root_);
}

bool SecuredRun::Begin(const std::vector<std::string>& settings, uint64_t rounds) {
  const char* const binaries = std::getenv("LONGWAVE_BIN");
  if (binaries == nullptr) {
    ADD_FAILURE() << "LONGWAVE_BIN: got nothing, wanted the folder of longwave";
    return false;
  }
  static int runs = 0;
  root_ = (std::filesystem::path(::testing::TempDir()) /
           absl::StrCat("longwave-intruder-", getpid(), "-", runs++))
              .string();
  std::filesystem::create_directories(root_);
  const std::string config = root_ + "/run.yaml";
  EXPECT_TRUE(WriteFile(config,
                        absl::StrCat("run: {preset: diloco, steps: 1000000, workers: 2, shards: 2,"
                                     " validation_batches: 1}\n"
                                     "model: {d_model: 32, layers: 1, heads: 2, context: 32}\n"
                                     "train: {batch: 1, warmup_steps: 0, threads: 1, device: cpu}\n"
                                     "sync: {inner_steps: 20, up: {codec: fp32}}\n"
                                     "cluster: {coordinator: '",
                                     address_,
                                     "', grace_min_s: 0.2, grace_max_s: 0.5}\n"
                                     "security: {mode: 'on', certificate_life_s: 120}\n"),
                        kPublicFile)
                  .ok());
  std::vector<std::string> argv = {absl::StrCat(binaries, "/longwave"),
                                   "up",
                                   config,
                                   "--plain",
                                   "--name",
                                   "run",
                                   "--runs-dir",
                                   root_ + "/runs"};
  for (const std::string& setting : settings) argv.insert(argv.end(), {"--set", setting});
  auto up = Process::Start(
      {.name = "up", .argv = std::move(argv), .log_file = root_ + "/up.log", .environment = {}});
  if (!up.ok()) {
    ADD_FAILURE() << up.status();
    return false;
  }
  up_ = *std::move(up);
  const auto trains = [&] {
    while (up_->ReadLine()) {
    }
    if (!up_->Running()) return true;
    if (operator_ == nullptr && ReadCredentials(credentials("operator")).ok())
      operator_ = CoordinatorClient::Connect(address_, absl::Seconds(20), credentials("operator"));
    if (operator_ == nullptr) return false;
    const auto status = operator_->GetStatus();
    return status.ok() && status->record_count >= rounds;
  };
  const auto came = Eventually(absl::StrCat("round ", rounds, " of a secured run"), trains);
  if (!came || !up_->Running()) {
    ADD_FAILURE() << came.message() << up_->FailureSentence() << "\nlogs are in " << root_;
    return false;
  }
  auto certificate = ReadTextFile(credentials("authority") + "/ca.crt");
  auto key = ReadTextFile(credentials("authority") + "/ca.key");
  auto authority = Authority::Load(certificate.value_or(""), key.value_or(""));
  if (!authority.ok()) {
    ADD_FAILURE() << authority.status();
    return false;
  }
  authority_ = *std::move(authority);
  return true;
}

std::string SecuredRun::NewFolder() {
  const std::string folder = absl::StrCat(root_, "/folder-", folders_++);
  std::filesystem::create_directories(folder);
  return folder;
}

std::string SecuredRun::Forge(const Authority& authority, const Identity& identity,
                              const Validity& validity) {
  auto made = MakeCredentials(authority, {identity}, {}, validity);
  EXPECT_TRUE(made.ok()) << made.status();
  made->authority = authority_->certificate();
  std::string folder = NewFolder();
  EXPECT_TRUE(WriteCredentials(folder, *made).ok());
  return folder;
}

std::string SecuredRun::NewToken(const TokenWish& wish) {
  const auto token = operator_->CreateToken(wish);
  EXPECT_TRUE(token.ok()) << token.status();
  return token.ok() ? token->token : "";
}

absl::Status SecuredRun::Join(const std::string& token, const std::string& name,
                              const std::string& folder) {
  const std::string where = folder.empty() ? NewFolder() : folder;
  return Answer([&] { return JoinRun(address_, token, WorkerIdentity(name), where).status(); });
}

RunStatus SecuredRun::Status() {
  absl::StatusOr<RunStatus> status;
  Answer([&] {
    status = operator_->GetStatus();
    return status.status();
  }).IgnoreError();
  return status.value_or(RunStatus());
}

absl::Status SecuredRun::StopWithoutCertificate() {
  const Channel channel("the coordinator", address_, absl::Seconds(20),
                        JoiningCredentials(authority_->certificate(), Role::kCoordinator));
  const auto stub = v1::Coordinator::NewStub(channel.grpc());
  v1::StopRunResponse response;
  return channel.Invoke([&](grpc::ClientContext* context) {
    return stub->StopRun(context, v1::StopRunRequest(), &response);
  });
}

std::unique_ptr<ShardClient> SecuredRun::ShardAs(uint32_t shard, const std::string& folder) {
  std::string address;
  for (const auto& known : Status().shards) {
    if (known.shard.shard == shard) address = known.shard.control_endpoint;
  }
  EXPECT_NE(address, "") << "no shard " << shard;
  return ShardClient::Connect(address, absl::Seconds(20), folder);
}

ShardReport SecuredRun::ShardStatus(uint32_t shard) {
  const auto client = ShardAs(shard, credentials("operator"));
  absl::StatusOr<ShardReport> report;
  Answer([&] {
    report = client->GetStatus();
    return report.status();
  }).IgnoreError();
  EXPECT_TRUE(report.ok()) << report.status();
  return report.value_or(ShardReport());
}

std::string SecuredRun::DataEndpoint(uint32_t shard) {
  for (const auto& known : Status().shards) {
    if (known.shard.shard == shard) return known.shard.data_endpoint;
  }
  ADD_FAILURE() << "no shard " << shard;
  return "";
}

uint64_t SecuredRun::CoordinatorRefusals(const std::string& reason) {
  return CountOf(Status().refusals, reason);
}

uint64_t SecuredRun::ShardRefusals(uint32_t shard, const std::string& reason) {
  return CountOf(ShardStatus(shard).refusals, reason);
}

std::string SecuredRun::LogOf(const std::string& process) const {
  return ReadTextFile(absl::StrCat(folder(), "/logs/", process, ".log")).value_or("");
}

bool SecuredRun::Logged(const std::string& process, size_t after,
                        const std::vector<std::string>& parts) const {
  const std::string log = LogOf(process);
  const absl::string_view later = absl::string_view(log).substr(std::min(after, log.size()));
  const std::vector<absl::string_view> lines = absl::StrSplit(later, '\n');
  return std::any_of(lines.begin(), lines.end(), [&](absl::string_view line) {
    return std::all_of(parts.begin(), parts.end(),
                       [&](const std::string& part) { return absl::StrContains(line, part); });
  });
}

std::string SecuredRun::PageOf(const std::string& process) const {
  // [{"labels": {"process": "shard-0", …}, "targets": ["127.0.0.1:1234"]}, …]
  const auto targets =
      nlohmann::json::parse(ReadTextFile(folder() + "/prometheus-targets.json").value_or("[]"));
  std::string page;
  for (const auto& target : targets) {
    if (target["labels"]["process"] != process) continue;
    page = Request(target["targets"][0], "GET", "/metrics").body;
  }
  return page;
}

std::optional<double> SecuredRun::MetricOf(const std::string& process, const std::string& series,
                                           const std::string& label) const {
  const std::string page = PageOf(process);
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    double value = 0;
    if (absl::StartsWith(line, series + "{") &&
        (label.empty() || absl::StrContains(line, absl::StrCat("=\"", label, "\""))) &&
        absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value))
      return value;
  }
  return std::nullopt;
}

}  // namespace longwave
