// The doctor's findings, from made-up readings.
#include "cli/doctor/checks.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;
using enum Finding::Verdict;

DriverReading GoodDriver() {
  return {.on_the_bus = true,
          .version = "550.54.14",
          .cuda_version = 13000,
          .gpus = {{.name = "H100", .memory_bytes = 80e9, .capability_major = 9}}};
}

WorkerReading OnGpu() { return {.device = "cuda", .why_not_cuda = ""}; }
WorkerReading OnCpu() { return {.device = "cpu", .why_not_cuda = "built without CUDA"}; }

DiskReading GoodDisk() {
  return {.folder = "/data",
          .free_bytes = 100e9,
          .bytes_per_second = 500e6,
          .sync = absl::Milliseconds(2)};
}

ShardReading GoodShard() {
  return {.shard = 2,
          .data = {.address = "10.0.0.5:7072", .round_trip = absl::Milliseconds(20)},
          .speed = SpeedReading{.up_bytes_per_second = 12.5e6, .down_bytes_per_second = 25e6}};
}

CoordinatorReading GoodCoordinator() {
  return {.control = {.address = "c:7070", .round_trip = absl::Milliseconds(20)},
          .clock = ClockReading{.ahead = absl::Milliseconds(3), .precision = absl::Milliseconds(9)},
          .speed = SpeedReading{1e6, 1e6},
          .status = absl::OkStatus(),
          .shards_wanted = 1,
          .shards = {GoodShard()}};
}

// Every finding that is not well has a remedy, and says what was found.
void ExpectSays(const Finding& finding, Finding::Verdict verdict, const std::string& what) {
  EXPECT_EQ(finding.verdict, verdict) << finding.what;
  EXPECT_THAT(finding.what, HasSubstr(what));
  EXPECT_EQ(finding.remedy.empty(), verdict == kOk) << finding.what;
}

// A reading that differs in one thing.
template <typename Reading, typename Change>
Reading With(Reading reading, const Change& change) {
  change(reading);
  return reading;
}

TEST(CheckGpu, SaysWhatThereIsAndWhatTheWorkerMakesOfIt) {
  ExpectSays(CheckGpu(GoodDriver(), OnGpu(), {}), kOk, "H100, 80.0 GB, compute capability 9.0");
  ExpectSays(CheckGpu({}, OnCpu(), {.device = "auto"}), kWarning, "trains on the CPU");
  ExpectSays(CheckGpu({}, OnCpu(), {.device = "cuda"}), kFailed, "train.device is cuda");
  ExpectSays(CheckGpu({}, OnCpu(), {.device = "cpu"}), kOk, "not wanted");
  ExpectSays(CheckGpu(GoodDriver(), OnCpu(), {}), kWarning, "built without CUDA");
  ExpectSays(CheckGpu(GoodDriver(), OnCpu(), {.device = "cuda"}), kFailed, "built without CUDA");
  ExpectSays(CheckGpu(GoodDriver(), OnGpu(), {.gpu_memory_bytes = 90e9}), kFailed,
             "the model needs 90");
  const auto old = [](DriverReading& driver) { driver.gpus[0].capability_major = 6; };
  ExpectSays(CheckGpu(With(GoodDriver(), old), OnCpu(), {}), kWarning, "wanted at least 7.5");
  const auto eight = [](DriverReading& driver) { driver.gpus.resize(8, driver.gpus[0]); };
  ExpectSays(CheckGpu(With(GoodDriver(), eight), OnGpu(), {}), kOk,
             "and 7 more (a worker uses the first)");
}

TEST(CheckDriver, SaysItsVersionOrInItsOwnWordsWhyThereIsNone) {
  ExpectSays(CheckDriver({}), kOk, "none");
  ExpectSays(CheckDriver({.on_the_bus = true}), kFailed, "no driver is loaded");
  ExpectSays(CheckDriver(GoodDriver()), kOk, "NVIDIA 550.54.14, CUDA up to 13.0");
  DriverReading idle = GoodDriver();
  idle.gpus.clear();
  idle.why_not = "cuInit: no CUDA-capable device is detected";
  ExpectSays(CheckDriver(idle), kFailed, "cuInit: no CUDA-capable device");
  DriverReading module{.on_the_bus = true, .version = "550.54.14"};
  module.why_not = "libcuda.so.1: cannot open shared object file";
  ExpectSays(CheckDriver(module), kFailed, "libcuda.so.1");
  const auto old = [](DriverReading& driver) { driver.cuda_version = 11080; };
  ExpectSays(CheckDriver(With(GoodDriver(), old)), kWarning, "CUDA up to 11.8, wanted at least 1");
}

TEST(CheckLibraries, PassTheLoadersSentenceOn) {
  ExpectSays(CheckLibraries(OnCpu()), kOk, "LibTorch");
  ExpectSays(CheckLibraries(absl::UnavailableError("libtorch_cpu.so: cannot open")), kFailed,
             "libtorch_cpu.so: cannot open");
}

TEST(CheckDisk, WantsRoomAndTimeForCheckpoints) {
  ExpectSays(CheckDisk(GoodDisk(), {.checkpoint_bytes = 20e9}), kOk, "100.0 GB free for /data");
  ExpectSays(CheckDisk(GoodDisk(), {.checkpoint_bytes = 60e9}), kFailed,
             "two checkpoints take 120.0 GB");
  const auto small = [](DiskReading& disk) { disk.free_bytes = 1e9; };
  ExpectSays(CheckDisk(With(GoodDisk(), small), {}), kWarning, "wanted at least 2.0");
  const auto slow = [](DiskReading& disk) { disk.bytes_per_second = 100e6; };
  ExpectSays(CheckDisk(With(GoodDisk(), slow), {.checkpoint_bytes = 20e9}), kWarning,
             "a checkpoint takes 200.0 s");
  const auto slow_sync = [](DiskReading& disk) { disk.sync = absl::Seconds(2); };
  ExpectSays(CheckDisk(With(GoodDisk(), slow_sync), {}), kWarning, "2.0 s a sync");
  ExpectSays(CheckDisk(absl::UnavailableError("/data: Read-only file system"), {}), kFailed,
             "Read-only");
}

TEST(CheckMachineMemory, HoldsWhatIsThereAgainstWhatTheWorkerNeeds) {
  const MachineMemory memory{.available_bytes = 16e9, .total_bytes = 32e9};
  const Needs needs{.memory_bytes = 20e9, .host_memory_bytes = 4e9};
  ExpectSays(CheckMachineMemory(memory, needs, /*on_gpu=*/false), kFailed, "needs 20");
  ExpectSays(CheckMachineMemory(memory, needs, /*on_gpu=*/true), kOk, "needs 4");
  ExpectSays(CheckMachineMemory(MachineMemory{5e8, 32e9}, {}, false), kWarning,
             "500.0 MB available");
  ExpectSays(CheckMachineMemory(absl::UnavailableError("no /proc/meminfo"), {}, false), kWarning,
             "no /proc/meminfo");
}

TEST(CheckData, NamesWhatIsMissing) {
  ExpectSays(CheckData(absl::NotFoundError("data.path: /books is not there")), kFailed, "/books");
  ExpectSays(CheckData(absl::OkStatus()), kOk, "there");
}

TEST(CheckClock, JudgesTheSkewBeyondWhatTheWayMayHaveAdded) {
  const auto clock = [](double ahead_s, double precision_s) {
    return CheckClock(ClockReading{absl::Seconds(ahead_s), absl::Seconds(precision_s)});
  };
  ExpectSays(clock(0.003, 0.02), kOk, "3.0 ms ahead of the coordinator's, give or take 20 ms");
  ExpectSays(clock(-5, 0.02), kWarning, "5.0 s behind the coordinator's");
  ExpectSays(clock(-5, 4), kOk, "5.0 s behind");
  ExpectSays(clock(400, 0.1), kFailed, "certificates would not be valid");
  ExpectSays(CheckClock(absl::UnavailableError("the coordinator is not reached")), kWarning,
             "not compared");
}

TEST(CheckCoordinator, SaysRoundTripAndSpeedOrWhatIsThereInstead) {
  const auto check_with = [](const auto& change) {
    return CheckCoordinator(With(GoodCoordinator(), change));
  };
  ExpectSays(CheckCoordinator(GoodCoordinator()), kOk,
             "c:7070, round trip 20 ms, 8.0 Mbit/s up, 8.0 Mbit/s down");
  ExpectSays(check_with([](CoordinatorReading& reading) {
               reading.control.round_trip = absl::UnavailableError("nobody listens there");
             }),
             kFailed, "c:7070: nobody listens there");
  ExpectSays(check_with([](CoordinatorReading& reading) {
               reading.status = absl::UnauthenticatedError("the run is secured");
             }),
             kWarning, "the run is secured");
  ExpectSays(check_with([](CoordinatorReading& reading) {
               reading.status = absl::UnavailableError("not gRPC");
             }),
             kFailed, "not gRPC");
  ExpectSays(check_with([](CoordinatorReading& reading) { reading.shards_wanted = 4; }), kWarning,
             "1 of 4 shards have registered");
}

TEST(CheckShard, SaysHowLongARoundsBytesTake) {
  // 100 MB up at 12.5 MB/s and 50 MB down at 25 MB/s, of which half goes to this shard.
  const Needs needs{.push_bytes = 100e6, .pull_bytes = 50e6};
  const Finding finding = CheckShard(GoodShard(), needs, 2);
  ExpectSays(finding, kOk, "round trip 20 ms, 100 Mbit/s up, 200 Mbit/s down");
  EXPECT_THAT(finding.what, HasSubstr("a round's bytes take 5.0 s"));
  EXPECT_EQ(finding.part, "shard 2");
}
TEST(CheckShard, JudgesLinkAndPorts) {
  const auto check_with = [](const auto& change) {
    return CheckShard(With(GoodShard(), change), {}, 1);
  };
  ExpectSays(CheckShard(GoodShard(), {.push_bytes = 1e9, .pull_bytes = 1e9}, 1), kWarning,
             "a round's bytes take 120.0 s");
  ExpectSays(check_with([](ShardReading& shard) { shard.speed->up_bytes_per_second = 1e5; }),
             kWarning, "0.8 Mbit/s up");
  ExpectSays(check_with([](ShardReading& shard) {
               shard.data.round_trip = absl::UnavailableError("no answer within 5s");
             }),
             kFailed, "data port 10.0.0.5:7072: no answer");
  // Workers do without the control port.
  ExpectSays(check_with([](ShardReading& shard) {
               shard.speed = absl::UnavailableError("control port 10.0.0.5:7073: no answer");
             }),
             kOk, "speed not measured (control port");
  ExpectSays(
      check_with([](ShardReading& shard) { shard.data.round_trip = absl::Milliseconds(900); }),
      kWarning, "900 ms");
}

TEST(CheckAll, LeavesTheLinksOutWhereNoCoordinatorWasNamed) {
  const Readings readings{
      .driver = {}, .worker = OnCpu(), .disk = GoodDisk(), .memory = MachineMemory{16e9, 32e9}};
  std::vector<std::string> parts;
  for (const Finding& finding : CheckAll(readings, {.device = "cpu"}))
    parts.push_back(finding.part);
  EXPECT_THAT(parts, ::testing::ElementsAre("gpu", "driver", "libraries", "disk", "memory"));
  EXPECT_EQ(Worst(CheckAll(readings, {.device = "cpu"})), kOk);
}
TEST(CheckAll, HasALineForEachShardAndFailsWithTheWorst) {
  Readings readings{.driver = GoodDriver(),
                    .worker = OnGpu(),
                    .disk = GoodDisk(),
                    .memory = MachineMemory{16e9, 32e9},
                    .coordinator = GoodCoordinator(),
                    .data = absl::OkStatus()};
  readings.coordinator->shards.push_back(GoodShard());
  readings.coordinator->shards[1].shard = 3;
  EXPECT_EQ(Worst(CheckAll(readings, {})), kOk);
  EXPECT_EQ(CheckAll(readings, {}).size(), 10u);
  readings.coordinator->shards[1].data.round_trip = absl::UnavailableError("closed");
  EXPECT_EQ(Worst(CheckAll(readings, {})), kFailed);
}

}  // namespace
}  // namespace longwave
