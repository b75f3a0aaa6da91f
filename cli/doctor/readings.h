#ifndef LONGWAVE_CLI_DOCTOR_READINGS_H_
#define LONGWAVE_CLI_DOCTOR_READINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/memory.h"

namespace longwave {

// What the doctor has measured, as plain values: an error says why something could not be.

struct GpuReading {
  std::string name;
  double memory_bytes = 0;
  int capability_major = 0, capability_minor = 0;
};

struct DriverReading {
  bool on_the_bus = false;  // a PCI device of NVIDIA's that shows or computes
  std::string version;      // of the kernel's module; empty: not loaded
  int cuda_version = 0;     // newest that the driver speaks: 13000 is 13.0; 0: no libcuda.so.1
  std::string why_not;      // libcuda.so.1 does not load, or does not start
  std::vector<GpuReading> gpus;
};

// `longwave-worker --check-device`: it starts with its libraries, and would compute there.
struct WorkerReading {
  std::string device;  // "cpu" or "cuda"
  std::string why_not_cuda;
};

struct DiskReading {
  std::string folder;
  double free_bytes = 0;
  double bytes_per_second = 0;  // written and synced
  absl::Duration sync;          // of one small block
};

// To one port of somebody's.
struct PortReading {
  std::string address;
  absl::StatusOr<absl::Duration> round_trip;  // of a TCP connection
};

struct SpeedReading {
  double up_bytes_per_second = 0;
  double down_bytes_per_second = 0;
};

struct ClockReading {
  absl::Duration ahead;      // this machine's clock over the coordinator's
  absl::Duration precision;  // give or take
};

struct ShardReading {
  uint32_t shard = 0;
  PortReading data;
  // By its control port, which workers do without: an error is no fault.
  absl::StatusOr<SpeedReading> speed;
};

struct CoordinatorReading {
  PortReading control;
  absl::StatusOr<ClockReading> clock;
  absl::StatusOr<SpeedReading> speed;
  // What it says of the run, where that may be asked.
  absl::Status status;
  uint32_t shards_wanted = 0;
  std::vector<ShardReading> shards;
};

struct Readings {
  DriverReading driver;
  absl::StatusOr<WorkerReading> worker;
  absl::StatusOr<DiskReading> disk;
  absl::StatusOr<MachineMemory> memory;
  std::optional<CoordinatorReading> coordinator;  // none: no address was given
  std::optional<absl::Status> data;               // the text to train on; none: not known
};

// What a run asks of a machine; 0 is not known.
struct Needs {
  std::string device = "auto";   // train.device
  double memory_bytes = 0;       // of a worker that computes on the CPU
  double gpu_memory_bytes = 0;   // of one that computes on a GPU,
  double host_memory_bytes = 0;  // and what it takes of the host
  double checkpoint_bytes = 0;   // on the disk; a new one is written beside the old one
  double push_bytes = 0;         // a round, over all shards
  double pull_bytes = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_READINGS_H_
