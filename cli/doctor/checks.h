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
  std::string what;    // was found
  std::string remedy;  // where it is not ok: what to do
};
std::string_view Name(Finding::Verdict verdict);  // "ok", "warning", "failed"

// The doctor's judgement of what was measured: nothing here measures. With a failed check a worker
// cannot take part; with a warning it can, slowly or not for long.
Finding CheckLibraries(const absl::StatusOr<WorkerReading>& worker);
Finding CheckGpu(const DriverReading& driver, const absl::StatusOr<WorkerReading>& worker,
                 const Needs& needs);
Finding CheckDriver(const DriverReading& driver);
Finding CheckDisk(const absl::StatusOr<DiskReading>& disk, const Needs& needs);
// on_gpu: where the worker computes.
Finding CheckMachineMemory(const absl::StatusOr<MachineMemory>& memory, const Needs& needs,
                           bool on_gpu);
Finding CheckData(const absl::Status& data);
Finding CheckClock(const absl::StatusOr<ClockReading>& clock);
Finding CheckCoordinator(const CoordinatorReading& coordinator);
// shard_count: among which a round's bytes are spread.
Finding CheckShard(const ShardReading& shard, const Needs& needs, uint32_t shard_count);

// All of them, in the order in which people look for faults.
std::vector<Finding> CheckAll(const Readings& readings, const Needs& needs);
// The worst; ok of none.
Finding::Verdict Worst(const std::vector<Finding>& findings);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_CHECKS_H_
