#include "cli/doctor/checks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/figures.h"

namespace longwave {
namespace {

using enum Finding::Verdict;

// The driver for the CUDA that our kernels were built with, of which the minor version does not
// matter; or for LibTorch with CUDA 12, the oldest that they can be built with.
#ifdef LONGWAVE_CUDART_VERSION
constexpr int kCudaVersionMin = LONGWAVE_CUDART_VERSION / 1000 * 1000;
#else
constexpr int kCudaVersionMin = 12000;
#endif
// The lowest target of our kernels: nvcc 13 supports nothing older than Turing.
constexpr int kCapabilityMin = 75;
constexpr double kDiskBytesMin = 2e9;  // without a known requirement
constexpr double kDiskBytesPerSecondMin = 20e6;
constexpr absl::Duration kCheckpointTimeMax = absl::Seconds(60);
constexpr absl::Duration kSyncTimeMax = absl::Milliseconds(500);
constexpr double kMemoryBytesMin = 1e9;
// Certificates of joiners begin a little before they are issued; a later clock fails.
constexpr absl::Duration kClockWarning = absl::Seconds(2);
// The time before its issue from which a certificate is valid.
constexpr absl::Duration kClockFailed = absl::Minutes(5);
constexpr double kBytesPerSecondMin = 1.25e6;  // 10 Mbit/s, without a known requirement
constexpr double kRoundSecondsMax = 60;        // the limit for a round's bytes
constexpr absl::Duration kRoundTripMax = absl::Milliseconds(400);

std::string Text(absl::Duration duration) {
  const double ms = absl::ToDoubleMilliseconds(duration);
  if (std::fabs(ms) < 1000) return absl::StrFormat("%.*f ms", std::fabs(ms) < 10 ? 1 : 0, ms);
  return absl::StrFormat("%.1f s", ms / 1000);
}

std::string RateText(double bytes_per_second) {
  const double mbit = bytes_per_second * 8 / 1e6;
  if (mbit >= 1000) return absl::StrFormat("%.1f Gbit/s", mbit / 1000);
  return absl::StrFormat("%.*f Mbit/s", mbit < 10 ? 1 : 0, mbit);
}

std::string CudaText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

std::string Message(const absl::Status& status) { return std::string(status.message()); }

bool OnGpu(const absl::StatusOr<WorkerReading>& worker) {
  return worker.ok() && worker->device == "cuda";
}

std::string GpusText(const std::vector<GpuReading>& gpus) {
  const GpuReading& first = gpus.front();
  std::string text =
      absl::StrCat(first.name, ", ", FormatBytes(first.memory_bytes), ", compute capability ",
                   first.capability_major, ".", first.capability_minor);
  if (gpus.size() > 1)
    absl::StrAppend(&text, ", and ", gpus.size() - 1, " more (a worker uses the first)");
  return text;
}

}  // namespace

std::string_view Name(Finding::Verdict verdict) {
  return verdict == kOk ? "ok" : verdict == kWarning ? "warning" : "failed";
}

Finding CheckLibraries(const absl::StatusOr<WorkerReading>& worker) {
  if (worker.ok()) return {"libraries", kOk, "longwave-worker starts, LibTorch with it", ""};
  return {"libraries", kFailed, Message(worker.status()),
          "unpack the whole archive of a worker, with longwave-worker beside longwave, and its "
          "LibTorch as README.md beside them says"};
}

Finding CheckGpu(const DriverReading& driver, const absl::StatusOr<WorkerReading>& worker,
                 const Needs& needs) {
  if (needs.device == "cpu") return {"gpu", kOk, "not wanted (train.device cpu)", ""};
  const Finding::Verdict without = needs.device == "cuda" ? kFailed : kWarning;
  const std::string or_cpu = needs.device == "cuda" ? ", or ask for the CPU with --device cpu" : "";
  if (driver.gpus.empty()) {
    return {"gpu", without,
            without == kFailed ? "none that can be used, and train.device is cuda"
                               : "none that can be used: the model trains on the CPU",
            absl::StrCat(driver.on_the_bus ? "mend the driver, see its line"
                                           : "take an instance that has one",
                         or_cpu)};
  }
  const GpuReading& gpu = driver.gpus.front();
  std::string what = GpusText(driver.gpus);
  if (gpu.capability_major * 10 + gpu.capability_minor < kCapabilityMin) {
    return {"gpu", without, absl::StrCat(what, ", wanted at least 7.5"),
            absl::StrCat("take a GPU of Turing's generation or later", or_cpu)};
  }
  if (worker.ok() && worker->device != "cuda") {
    return {"gpu", without,
            absl::StrCat(what, ", but longwave-worker computes on the CPU: ", worker->why_not_cuda),
            absl::StrCat("use a longwave-worker and a LibTorch that were built for CUDA", or_cpu)};
  }
  if (needs.gpu_memory_bytes > gpu.memory_bytes) {
    return {"gpu", kFailed,
            absl::StrCat(what, ", the model needs ", FormatBytes(needs.gpu_memory_bytes)),
            "take a GPU with more memory, or a smaller train.batch"};
  }
  return {"gpu", kOk, std::move(what), ""};
}

Finding CheckDriver(const DriverReading& driver) {
  if (driver.version.empty() && driver.cuda_version == 0) {
    if (!driver.on_the_bus) return {"driver", kOk, "none, and no NVIDIA GPU that needs it", ""};
    return {"driver", kFailed, "an NVIDIA GPU is on the PCI bus, but no driver is loaded",
            "install NVIDIA's driver (Debian: nvidia-driver; Ubuntu: nvidia-driver-580-server) and "
            "start the machine again"};
  }
  const std::string version = driver.version.empty() ? "of unknown version" : driver.version;
  if (driver.cuda_version == 0 || driver.gpus.empty()) {
    return {"driver", kFailed,
            absl::StrCat("NVIDIA ", version, ", which does not work: ",
                         driver.why_not.empty() ? "it shows no GPU" : driver.why_not),
            "start the machine again after an update of the driver; in a container, give it the "
            "GPUs (--gpus all)"};
  }
  std::string what =
      absl::StrCat("NVIDIA ", version, ", CUDA up to ", CudaText(driver.cuda_version));
  if (driver.cuda_version < kCudaVersionMin) {
    return {"driver", kWarning, absl::StrCat(what, ", wanted at least ", CudaText(kCudaVersionMin)),
            "install a newer driver: 525 or later has CUDA 12, 580 or later CUDA 13"};
  }
  return {"driver", kOk, std::move(what), ""};
}

Finding CheckDisk(const absl::StatusOr<DiskReading>& disk, const Needs& needs) {
  if (!disk.ok()) {
    return {"disk", kFailed, Message(disk.status()),
            absl::StrCat("give ", needs.folder_option, " a folder on a disk that can be written")};
  }
  const double wanted = needs.checkpoint_bytes > 0 ? 2 * needs.checkpoint_bytes : kDiskBytesMin;
  std::string what = absl::StrCat(FormatBytes(disk->free_bytes), " free for ", disk->folder, ", ",
                                  FormatBytes(disk->bytes_per_second), "/s written and synced, ",
                                  Text(disk->sync), " a sync");
  if (disk->free_bytes < wanted) {
    const bool is_known = needs.checkpoint_bytes > 0;
    return {"disk", is_known ? kFailed : kWarning,
            absl::StrCat(what, is_known ? "; two checkpoints take " : "; wanted at least ",
                         FormatBytes(wanted)),
            absl::StrCat("make room, or give ", needs.folder_option, " a folder on a larger disk")};
  }
  const double seconds = needs.checkpoint_bytes / std::max(disk->bytes_per_second, 1.0);
  if (seconds > absl::ToDoubleSeconds(kCheckpointTimeMax)) {
    return {"disk", kWarning,
            absl::StrCat(what, "; a checkpoint takes ", Text(absl::Seconds(seconds))),
            "use a local disk, or raise cluster.checkpoint_rounds"};
  }
  if (disk->bytes_per_second < kDiskBytesPerSecondMin || disk->sync > kSyncTimeMax) {
    return {"disk", kWarning, std::move(what), "use a local disk rather than one over the network"};
  }
  return {"disk", kOk, std::move(what), ""};
}

Finding CheckMachineMemory(const absl::StatusOr<MachineMemory>& memory, const Needs& needs,
                           bool on_gpu) {
  if (!memory.ok()) {
    return {"memory", kWarning, Message(memory.status()), "mount /proc where the worker runs"};
  }
  std::string what = absl::StrCat(FormatBytes(memory->available_bytes), " available of ",
                                  FormatBytes(memory->total_bytes));
  const double needed = (on_gpu ? needs.host_memory_bytes : needs.memory_bytes);
  if (needed > memory->available_bytes) {
    return {"memory", kFailed, absl::StrCat(what, ", the worker needs ", FormatBytes(needed)),
            on_gpu ? "end what else runs here, or take a larger machine"
                   : "end what else runs here, take a larger machine, or a smaller train.batch"};
  }
  if (needed == 0 && memory->available_bytes < kMemoryBytesMin) {
    return {"memory", kWarning, std::move(what), "end what else runs here"};
  }
  if (needed > 0) absl::StrAppend(&what, ", the worker needs ", FormatBytes(needed));
  return {"memory", kOk, std::move(what), ""};
}

Finding CheckData(const absl::Status& data) {
  if (data.ok()) return {"data", kOk, "the text to train on is there", ""};
  return {"data", kFailed, Message(data), "bring the run's text here and name it with --data PATH"};
}

Finding CheckClock(const absl::StatusOr<ClockReading>& clock) {
  constexpr char kRemedy[] = "let the system set it: `timedatectl set-ntp true`, or install chrony";
  if (!clock.ok()) {
    return {"clock", kWarning, absl::StrCat("not compared: ", Message(clock.status())),
            "mend the coordinator's line first"};
  }
  const absl::Duration apart = absl::AbsDuration(clock->ahead);
  const std::string what =
      absl::StrCat(Text(apart), clock->ahead < absl::ZeroDuration() ? " behind" : " ahead of",
                   " the coordinator's, give or take ", Text(clock->precision));
  if (apart - clock->precision > kClockFailed)
    return {"clock", kFailed, absl::StrCat(what, ": certificates would not be valid"), kRemedy};
  if (apart - clock->precision > kClockWarning) return {"clock", kWarning, what, kRemedy};
  return {"clock", kOk, what, ""};
}

Finding CheckCoordinator(const CoordinatorReading& coordinator) {
  const PortReading& port = coordinator.control;
  if (!port.round_trip.ok()) {
    return {"coordinator", kFailed,
            absl::StrCat(port.address, ": ", Message(port.round_trip.status())),
            "check the address, that the coordinator runs, and that firewalls let its TCP port "
            "through"};
  }
  std::string what = absl::StrCat(port.address, ", round trip ", Text(*port.round_trip));
  if (!coordinator.status.ok()) {
    const bool may_not =
        absl::IsUnauthenticated(coordinator.status) || absl::IsPermissionDenied(coordinator.status);
    absl::StrAppend(&what, ", ", Message(coordinator.status));
    if (may_not) {
      return {"coordinator", kWarning, std::move(what),
              "join the run, and name with --state-dir its folder, which has the credentials"};
    }
    return {"coordinator", kFailed, std::move(what),
            "check that it is a coordinator of Longwave, and see its log"};
  }
  if (coordinator.speed.ok()) {
    absl::StrAppend(&what, ", ", RateText(coordinator.speed->up_bytes_per_second), " up, ",
                    RateText(coordinator.speed->down_bytes_per_second), " down");
  }
  if (coordinator.shards.size() < coordinator.shards_wanted) {
    return {"coordinator", kWarning,
            absl::StrCat(what, "; ", coordinator.shards.size(), " of ", coordinator.shards_wanted,
                         " shards have registered"),
            "start the others: no round begins without them"};
  }
  return {"coordinator", kOk, std::move(what), ""};
}

Finding CheckShard(const ShardReading& shard, const Needs& needs, uint32_t shard_count) {
  const std::string part = absl::StrCat("shard ", shard.shard);
  const PortReading& port = shard.data;
  if (!port.round_trip.ok()) {
    return {part, kFailed,
            absl::StrCat("data port ", port.address, ": ", Message(port.round_trip.status())),
            "check what the shard announces (--advertise), and that firewalls let its TCP port "
            "through"};
  }
  std::string what =
      absl::StrCat("data port ", port.address, ", round trip ", Text(*port.round_trip));
  if (!shard.speed.ok()) {
    absl::StrAppend(&what, ", speed not measured (", Message(shard.speed.status()), ")");
    return {part, kOk, std::move(what), ""};
  }
  const double up = shard.speed->up_bytes_per_second;
  const double down = shard.speed->down_bytes_per_second;
  absl::StrAppend(&what, ", ", RateText(up), " up, ", RateText(down), " down");
  const double share = 1.0 / std::max(shard_count, 1u);
  const double seconds = share * (needs.push_bytes / up + needs.pull_bytes / down);
  const bool is_known = needs.push_bytes > 0;
  if (is_known) absl::StrAppend(&what, ", a round's bytes take ", Text(absl::Seconds(seconds)));
  if (is_known ? seconds > kRoundSecondsMax : std::min(up, down) < kBytesPerSecondMin) {
    return {part, kWarning, std::move(what),
            "use a faster link, or for the whole run more sync.inner_steps or a smaller sync.up.k"};
  }
  if (*port.round_trip > kRoundTripMax) {
    return {part, kWarning, std::move(what), "place the shard nearer, or raise sync.overlap"};
  }
  return {part, kOk, std::move(what), ""};
}

std::vector<Finding> CheckAll(const Readings& readings, const Needs& needs) {
  std::vector<Finding> findings = {
      CheckGpu(readings.driver, readings.worker, needs),
      CheckDriver(readings.driver),
      CheckLibraries(readings.worker),
      CheckDisk(readings.disk, needs),
      CheckMachineMemory(readings.memory, needs, OnGpu(readings.worker)),
  };
  if (readings.data) findings.push_back(CheckData(*readings.data));
  if (!readings.coordinator) return findings;
  const CoordinatorReading& coordinator = *readings.coordinator;
  findings.push_back(CheckClock(coordinator.clock));
  findings.push_back(CheckCoordinator(coordinator));
  const uint32_t shard_count = std::max<uint32_t>(coordinator.shards_wanted,
                                                  static_cast<uint32_t>(coordinator.shards.size()));
  for (const ShardReading& shard : coordinator.shards)
    findings.push_back(CheckShard(shard, needs, shard_count));
  return findings;
}

Finding::Verdict Worst(const std::vector<Finding>& findings) {
  Finding::Verdict worst = kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.verdict);
  return worst;
}

}  // namespace longwave
