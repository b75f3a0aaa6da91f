#ifndef LONGWAVE_CLI_DOCTOR_CHECKS_H_
#define LONGWAVE_CLI_DOCTOR_CHECKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/readings.h"

namespace longwave {

struct Finding {
  enum class Verdict : uint8_t { kOk, kWarning, kFailed };

  std::string part;  // "gpu", "driver", …, "shard 2"
  Verdict verdict = Verdict::kOk;
  std::string what;    // the measurement
  std::string remedy;  // the advice, if not ok
};
std::string_view Name(Finding::Verdict verdict);  // "ok", "warning", "failed"

// The checks of the measurements; the functions below measure nothing. With a failed check a worker
// cannot take part; with a warning it can, slowly or not for long.
Finding CheckLibraries(const absl::StatusOr<WorkerReading>& worker);
Finding CheckGpu(const DriverReading& driver, const absl::StatusOr<WorkerReading>& worker,
                 const Needs& needs);
Finding CheckDriver(const DriverReading& driver);
Finding CheckDisk(const absl::StatusOr<DiskReading>& disk, const Needs& needs);
// on_gpu: whether the worker computes on the GPU.
Finding CheckMachineMemory(const absl::StatusOr<MachineMemory>& memory, const Needs& needs,
                           bool on_gpu);
Finding CheckData(const absl::Status& data);
Finding CheckClock(const absl::StatusOr<ClockReading>& clock);
Finding CheckCoordinator(const CoordinatorReading& coordinator);
// shard_count: the shards that share a round's bytes.
Finding CheckShard(const ShardReading& shard, const Needs& needs, uint32_t shard_count);

// All checks, in the order in which people look for faults.
std::vector<Finding> CheckAll(const Readings& readings, const Needs& needs);
// The worst verdict; ok for an empty list.
Finding::Verdict Worst(const std::vector<Finding>& findings);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_CHECKS_H_
