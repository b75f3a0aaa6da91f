// The coordinator's service with a folder of its own: ended at any point and started again, it goes
// on. Workers and shards are this test.
#include "server/service/coordinator_service.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/layout/layout.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/tls.h"
#include "common/security/credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "longwave/v1/coordinator.pb.h"
#include "server/service/metrics_file.h"
#include "tests/support/raw_call.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kWait = absl::Seconds(30);

// In its scope no file of this process grows beyond a few bytes.
class FullDisk {
 public:
  FullDisk() {
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &limit_), 0);
    const rlimit small = {.rlim_cur = 16, .rlim_max = limit_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FullDisk() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit_), 0); }

 private:
  rlimit limit_{};
};

// The most of this process's memory that was resident so far.
uint64_t PeakResidentBytes() {
  rusage usage;
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return static_cast<uint64_t>(usage.ru_maxrss) << 10;
}

class CoordinatorServiceTest : public ::testing::Test {
 protected:
  CoordinatorServiceTest() : config_(DefaultConfig()) {
    config_.run.workers = 1;
    config_.run.shards = 1;
    config_.sync.inner_steps = 1;
    config_.run.steps = 5;
    config_.model = {.kind = "gpt", .d_model = 8, .layers = 1, .heads = 1, .context = 8};
  }

  CoordinatorServiceOptions Options() const {
    return {.config = config_,
            .address = "127.0.0.1:0",
            .run_dir = run_dir(),
            .state_dir = state_dir()};
  }
  // Restarts as after a crash, in which the earlier process ended without notice.
  void Start() { Start(Options()); }
  void Start(const CoordinatorServiceOptions& options) {
    service_.reset();
    auto service = CoordinatorService::Start(options);
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    client_ = CoordinatorClient::Connect(service_->address(), kWait);
  }

  RegisterWorker Worker() const {
    ModelSection model = config_.model;
    model.kind = "gpt";  // which an external model may be, too
    const Manifest manifest = *GptManifest(model);
    const Layout layout = *Layout::Create(manifest, LayoutOptionsFor(config_, manifest));
    return {.name = "w",
            .identity = 5,
            .manifest = manifest,
            .layout_hash = layout.hash(),
            .incarnation = 1,
            .settings = BindingSettings(config_),
            .start_hashes = std::vector<uint64_t>(layout.segments().size())};
  }
  RegisterShard Shard() const {
    return {.shard = 0,
            .data_endpoint = "tcp://h:1",
            .control_endpoint = "h:2",
            .incarnation = 2,
            .settings = BindingSettings(config_)};
  }
  void Begin() {
    ASSERT_TRUE(client_->Register(Shard()).ok());
    ASSERT_TRUE(client_->Register(Worker()).ok());
    ASSERT_TRUE(KnowEpoch(1).ok());
  }
  // The shard receives the epoch, and confirms it.
  absl::Status KnowEpoch(uint32_t epoch) {
    ShardHeartbeat heartbeat{.shard = 0,
                             .incarnation = 2,
                             .known_epoch = epoch - 1,
                             .knows_manifest = true,
                             .state = {.open_round = 5}};  // all that are reported
    if (const auto told = client_->Heartbeat(heartbeat); !told.ok()) return told.status();
    heartbeat.known_epoch = epoch;
    return client_->Heartbeat(heartbeat).status();
  }
  absl::StatusOr<WorkerHeartbeatReply> Report(uint32_t round) {
    return client_->Heartbeat(WorkerHeartbeat{
        .worker = 0,
        .incarnation = 1,
        .state = {.phase = WorkerPhase::kTraining},
        .rounds = {{.round = round, .segment_hashes = {9}, .tokens = 10u * (round + 1)}},
        .known_epoch = 1});
  }
  RunStatus Status() {
    auto status = client_->GetStatus(0);
    EXPECT_TRUE(status.ok()) << status.status();
    return status.value_or(RunStatus());
  }

  // With a certificate of all the names.
  std::unique_ptr<CoordinatorClient> ConnectAs(const std::vector<std::string>& names) {
    std::vector<Identity> identities;
    identities.reserve(names.size());
    for (const std::string& name : names) identities.push_back(WorkerIdentity(name));
    const auto authority = LoadAuthority(state_dir() + "/security");
    EXPECT_TRUE(authority.ok()) << authority.status();
    const auto made = MakeCredentials(**authority, identities, {}, {absl::Now(), absl::Hours(1)});
    const std::string own = folder_.path() + "/workers/" + names[0];
    EXPECT_TRUE(made.ok() && WriteCredentials(own, *made).ok());
    return CoordinatorClient::Connect(service_->address(), kWait, own);
  }
  std::unique_ptr<CoordinatorClient> ConnectAsOperator() const {
    return CoordinatorClient::Connect(service_->address(), kWait,
                                      state_dir() + "/security/operator");
  }

  std::string run_dir() const { return folder_.path() + "/run"; }
  std::string state_dir() const { return folder_.path() + "/state/coordinator"; }
  std::string metrics_path() const { return run_dir() + "/metrics.jsonl"; }
  // The rounds of the file, in order.
  std::vector<std::string> MetricsRounds() const {
    std::vector<std::string> rounds;
    std::ifstream in(metrics_path());
    for (std::string line; std::getline(in, line);) rounds.push_back(line.substr(0, 10));
    return rounds;
  }

  RunConfig config_;
  TestFolder folder_;
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<CoordinatorClient> client_;
};

TEST_F(CoordinatorServiceTest, StartedAgainItGoesOnWithTheRun) {
  Start();
  Begin();
  const auto before = Report(0);
  ASSERT_TRUE(before.ok()) << before.status();
  Start();
  RunStatus status = Status();
  EXPECT_EQ(status.phase, RunPhase::kTraining);
  EXPECT_EQ(status.epoch, 1u);
  EXPECT_EQ(status.record_count, 1u);
  EXPECT_EQ(status.members.at(0).member.name, "w");
  // Members need not register again, and a repeated registration has the same answer.
  ASSERT_TRUE(KnowEpoch(1).ok());
  const auto reply = Report(1);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->run, before->run);
  EXPECT_EQ(reply->instruction, Instruction::kContinue);
  EXPECT_EQ(client_->Register(Worker()).value_or(99), 0u);
  EXPECT_EQ(client_->Register(Shard())->run, before->run);
  status = Status();
  EXPECT_EQ(status.record_count, 2u);
  EXPECT_EQ(status.records.at(1).tokens, 20u);
  EXPECT_THAT(MetricsRounds(), ElementsAre("{\"round\":0", "{\"round\":1"));
}

TEST_F(CoordinatorServiceTest, StartedAgainBeforeTheRunBeganItStillWaits) {
  Start();
  ASSERT_TRUE(client_->Register(Worker()).ok());
  Start();
  EXPECT_EQ(Status().members.size(), 1u);
  Begin();
  EXPECT_EQ(Status().phase, RunPhase::kTraining);
}

TEST_F(CoordinatorServiceTest, WithoutAFolderItKnowsNothingOfTheRunBefore) {
  Start({.config = config_, .address = "127.0.0.1:0"});
  Begin();
  EXPECT_TRUE(Report(0).ok());
  EXPECT_FALSE(std::filesystem::exists(state_dir()));
}

TEST_F(CoordinatorServiceTest, ANoteStandsInTheLogWithoutWhatATerminalObeys) {
  Start();
  testing::internal::CaptureStderr();
  EXPECT_EQ(client_->AddNote("the link was \033[2J changed"), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(client_->AddNote("")));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("an operator notes: the link was "));
  EXPECT_EQ(log.find('\033'), std::string::npos) << log;
}

TEST_F(CoordinatorServiceTest, ARunThatWasStoppedStaysStopped) {
  Start();
  Begin();
  ASSERT_TRUE(client_->StopRun("enough").ok());
  Start();
  const auto reply = Report(0);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->instruction, Instruction::kStop);
  EXPECT_EQ(reply->reason, "enough");
}

TEST_F(CoordinatorServiceTest, AFolderOfAnotherConfigurationIsRefused) {
  Start();
  Begin();
  service_.reset();
  config_.sync.rho = 0.5;
  const absl::Status status = CoordinatorService::Start(Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), state_dir() +
                                  ": the coordinator's record is of a run with other "
                                  "settings; wanted this run's");
}

TEST_F(CoordinatorServiceTest, AFolderIsOneCoordinatorsAtATime) {
  Start();
  EXPECT_EQ(CoordinatorService::Start(Options()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CoordinatorServiceTest, AnswersNobodyWhileItCannotWriteWhatItDecided) {
  Start();
  Begin();
  {
    const FullDisk full;
    EXPECT_EQ(Report(0).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(MetricsRounds(), ElementsAre());
    EXPECT_THAT(Status().trouble, HasSubstr("the coordinator's state, which it must keep before it "
                                            "answers anybody, cannot be written: "));
  }
  const auto reply = Report(0);  // sent again, it says nothing new
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(MetricsRounds(), ElementsAre("{\"round\":0"));
  EXPECT_EQ(Status().trouble, "");
  Start();
  EXPECT_EQ(Status().record_count, 1u);
}

TEST_F(CoordinatorServiceTest, AStopThatItCannotWriteIsNone) {
  Start();
  Begin();
  {
    const FullDisk full;
    const absl::Status stopped = client_->StopRun("enough");
    EXPECT_EQ(stopped.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(stopped.message()), HasSubstr("the run stops once it is written: "));
  }
  EXPECT_TRUE(client_->StopRun("enough").ok());
  Start();
  EXPECT_EQ(Status().phase, RunPhase::kStopped);
}

// The worker and the shard wait for an answer that says so.
TEST_F(CoordinatorServiceTest, EndsWhenTheEndIsInAnswersThatWereSent) {
  CoordinatorServiceOptions options = Options();
  options.exit_when_done = true;
  Start(options);
  Begin();
  {
    const FullDisk full;
    EXPECT_FALSE(client_->StopRun("enough").ok());
    EXPECT_FALSE(Report(0).ok());
    EXPECT_FALSE(KnowEpoch(1).ok());
  }
  EXPECT_TRUE(KnowEpoch(1).ok());  // the shard alone has heard
  std::stop_source stop;
  auto ended = std::async([&] { return service_->Run(stop.get_token()); });
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
  EXPECT_EQ(Report(0)->instruction, Instruction::kStop);
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  stop.request_stop();
}

// A node is drained because its disk is full.
TEST_F(CoordinatorServiceTest, ToldToEndWhileItsDiskIsFullItLeavesTheRunToBeGoneOnWith) {
  Start();
  Begin();
  std::stop_source stop;
  stop.request_stop();
  {
    const FullDisk full;
    EXPECT_EQ(Report(0).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(service_->Run(stop.get_token()).ok());
  }
  Start();
  EXPECT_EQ(Status().phase, RunPhase::kTraining);
}

TEST_F(CoordinatorServiceTest, LinesThatAFullDiskKeptFromTheFileAreWrittenLater) {
  std::filesystem::create_directories(run_dir());
  std::filesystem::create_symlink("/dev/full", metrics_path());
  Start();
  Begin();
  ASSERT_TRUE(Report(0).ok());  // which it does not wait for
  EXPECT_EQ(Status().trouble,
            absl::StrCat("metrics.jsonl cannot be written: round 0 to ", metrics_path()));
  std::filesystem::remove(metrics_path());
  ASSERT_TRUE(Report(1).ok());  // to the file that was open, after which it opens the new one
  ASSERT_TRUE(Report(2).ok());
  EXPECT_EQ(Status().trouble, "");
  EXPECT_THAT(MetricsRounds(), ElementsAre("{\"round\":0", "{\"round\":1", "{\"round\":2"));
}

TEST_F(CoordinatorServiceTest, LinesThatACrashKeptFromTheFileAreWrittenLater) {
  Start();
  Begin();
  for (const uint32_t round : {0, 1, 2}) ASSERT_TRUE(Report(round).ok());
  service_.reset();
  // Round 1's line is torn, round 2's was never written.
  std::string first;
  std::getline(std::ifstream(metrics_path()), first);
  std::ofstream(metrics_path(), std::ios::trunc) << first << "\n{\"round\":1,\"st";
  Start();
  EXPECT_THAT(MetricsRounds(), ElementsAre("{\"round\":0", "{\"round\":1", "{\"round\":2"));
  ASSERT_TRUE(Report(3).ok());
  EXPECT_EQ(MetricsRounds().size(), 4u);
}

TEST_F(CoordinatorServiceTest, AFileThatIsAheadOfTheRecordIsNotWrittenTwice) {
  std::filesystem::create_directories(run_dir());
  std::ofstream(metrics_path()) << "{\"round\":7}\nno json\n{\"text\":1}\n";
  const auto file = MetricsFile::Continue(run_dir(), 5);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->next_round(), 5u);
  EXPECT_EQ(MetricsFile::Continue(run_dir(), 20)->next_round(), 8u);
  EXPECT_EQ(MetricsRounds().size(), 3u);
}

TEST_F(CoordinatorServiceTest, WhoSharesAnExpelledWorkersCertificateIsNobodyElseEither) {
  config_.security.mode = "on";
  Start();
  const auto workers = ConnectAs({"w0", "w1"});
  const auto as_operator = ConnectAsOperator();
  RegisterWorker request = Worker();
  request.name = "w0";
  ASSERT_TRUE(workers->Register(request).ok());
  const absl::Status warned = as_operator->Expel("w0", false).status();
  EXPECT_EQ(warned.code(), absl::StatusCode::kFailedPrecondition) << warned;
  EXPECT_TRUE(workers->GetStatus(0).ok()) << "nothing has happened";
  ASSERT_TRUE(as_operator->Expel("w0", false, true).ok());
  EXPECT_EQ(workers->GetStatus(0).status().code(), absl::StatusCode::kPermissionDenied);
  request.name = "w1";
  request.identity = request.incarnation = 77;
  const absl::Status as_another = workers->Register(request).status();
  EXPECT_EQ(as_another.code(), absl::StatusCode::kPermissionDenied) << as_another;
}

// gRPC itself reads a whole request into memory before it calls the service.
TEST_F(CoordinatorServiceTest, AStrangerIsRefusedBeforeAnythingOfItsRequestHasCome) {
  config_.security.mode = "on";
  Start();
  const auto authority = ReadTextFile(state_dir() + "/security/ca.crt");
  ASSERT_TRUE(authority.ok()) << authority.status();
  const auto channel =
      grpc::CreateChannel(service_->address(), JoiningCredentials(*authority, Role::kCoordinator));
  const auto code_of = [&](const std::string& method) {
    return CallWithoutRequest(channel, "/" + method).error_code();
  };
  const auto& service = *v1::GetStatusRequest::descriptor()->file()->service(0);
  for (int i = 0; i < service.method_count(); ++i) {
    const std::string& call = service.method(i)->name();
    if (call == "GetAuthority" || call == "Join") continue;
    EXPECT_EQ(code_of(absl::StrCat("longwave.v1.Coordinator/", call)),
              grpc::StatusCode::UNAUTHENTICATED)
        << call;
  }
  EXPECT_EQ(code_of("longwave.v1.Probe/Measure"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code_of("longwave.v1.Coordinator/Join"), grpc::StatusCode::INVALID_ARGUMENT)
      << "without a token";
  for (const char* call : {"Coordinator/GetAuthority", "Probe/GetTime"})
    EXPECT_EQ(code_of(absl::StrCat("longwave.v1.", call)), grpc::StatusCode::OK) << call;
  for (const char* call :
       {"health.v1.Health/Check", "reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(code_of(absl::StrCat("grpc.", call)), grpc::StatusCode::UNIMPLEMENTED) << call;
  }
}

// Hundreds of workers that are refused again and again must not fill the disk.
TEST_F(CoordinatorServiceTest, CallsThatItRefusesHaveFewLines) {
  Start();
  RegisterWorker worker = Worker();
  worker.settings = "run.steps: 1\n";
  testing::internal::CaptureStderr();
  for (int i = 0; i < 200; ++i) {
    worker.name = absl::StrCat("w", i);
    EXPECT_TRUE(absl::IsInvalidArgument(client_->Register(worker).status()));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("refused: worker w0"));
  EXPECT_LE(std::ranges::count(log, '\n'), 64);
}

// Otherwise the first worker would determine the model for all others.
TEST_F(CoordinatorServiceTest, TheModelIsTheConfigurations) {
  Start();
  RegisterWorker other = Worker();
  other.name = "other";
  other.manifest.tensors[0].shape[1] = 16;
  const absl::Status shape = client_->Register(other).status();
  EXPECT_EQ(shape.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shape.message()),
              HasSubstr("the model is not that of the configuration"));
  other.manifest = Worker().manifest;
  other.layout_hash = 0;
  EXPECT_THAT(std::string(client_->Register(other).status().message()),
              HasSubstr("layout hash 0000000000000000, wanted "));
  EXPECT_TRUE(client_->Register(Worker()).ok());
}

TEST_F(CoordinatorServiceTest, AnExternalModelIsTheFirstWorkers) {
  config_.model.kind = "external";
  config_.run.workers = 2;
  Start();
  RegisterWorker first = Worker();
  first.manifest = Manifest{{{"mine", {64, 64}}}};
  first.layout_hash =
      Layout::Create(first.manifest, LayoutOptionsFor(config_, first.manifest))->hash();
  ASSERT_TRUE(client_->Register(first).ok());
  RegisterWorker second = Worker();
  second.name = "second";
  EXPECT_THAT(std::string(client_->Register(second).status().message()),
              HasSubstr("model of worker second differs"));
}

// The table of its tiles would have 8 GiB.
TEST_F(CoordinatorServiceTest, AHugeModelCostsNoMemory) {
  config_.model.kind = "external";
  Start();
  RegisterWorker huge = Worker();
  huge.manifest = Manifest{{{"huge", {1 << 20, 1 << 20}}}};
  huge.layout_hash = 0;
  const uint64_t before = PeakResidentBytes();
  EXPECT_THAT(std::string(client_->Register(huge).status().message()),
              HasSubstr("layout hash 0000000000000000, wanted "));
  EXPECT_LT(PeakResidentBytes(), before + (uint64_t{100} << 20));
}

TEST_F(CoordinatorServiceTest, TellsTheRunToWhoHasItsAddressAlone) {
  config_.security.folder = run_dir() + "/secrets";
  config_.train.warmup_steps = 1;
  for (const char* const model : {"gpt", "external"}) {  // which its first worker brings
    config_.model.kind = model;
    service_.reset();
    std::filesystem::remove_all(state_dir());
    Start();
    auto run = client_->GetRun();
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_FALSE(run->manifest.has_value());
    auto config = ParseConfig(run->configuration, "told");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->security.folder, "");
    config->security.folder = config_.security.folder;
    EXPECT_EQ(*config, config_);
    ASSERT_TRUE(client_->Register(Worker()).ok());
    run = client_->GetRun();
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->manifest, Worker().manifest);
  }
}

TEST_F(CoordinatorServiceTest, AWorkerThatIsExpelledWhileItRegistersIsNoMember) {
  constexpr int kTimes = 24;
  config_.security.mode = "on";
  config_.run.workers = kTimes + 2;
  // A manifest that takes long to read, between admission and registration.
  config_.model.layers = (kManifestTensorsMax - 4) / kGptBlockTensors;
  Start();
  std::map<std::string, std::unique_ptr<CoordinatorClient>> workers;
  for (int i = -1; i < kTimes; ++i) {
    const std::string name = i < 0 ? "first" : absl::StrCat("w", i);
    workers[name] = ConnectAs({name});
    ASSERT_TRUE(workers[name]->GetStatus(0).ok()) << "connected";
  }
  const auto as_operator = ConnectAsOperator();
  const RegisterWorker request = Worker();
  const auto registers = [&](const std::string& name) {
    RegisterWorker mine = request;
    mine.name = name;
    mine.identity = mine.incarnation = std::hash<std::string>()(name) | 1;
    return workers.at(name)->Register(mine).status();
  };
  ASSERT_TRUE(as_operator->GetStatus(0).ok());
  const absl::Time begin = absl::Now();
  const absl::Status first = registers("first");
  ASSERT_TRUE(first.ok()) << first;
  const absl::Duration taken = absl::Now() - begin;
  // Expelled at every point of it.
  for (int i = 0; i < kTimes; ++i) {
    const std::string name = absl::StrCat("w", i);
    std::thread registering([&] { registers(name).IgnoreError(); });
    absl::SleepFor(taken * i / kTimes);
    EXPECT_TRUE(as_operator->Expel(name, false).ok());
    registering.join();
  }
  const auto status = as_operator->GetStatus(0);
  ASSERT_TRUE(status.ok()) << status.status();
  std::vector<std::string> members;
  for (const MemberStatus& member : status->members) members.push_back(member.member.name);
  EXPECT_THAT(members, ElementsAre("first"));
}

}  // namespace
}  // namespace longwave
