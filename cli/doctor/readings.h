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

// The doctor's measurements as plain values; an error has the reason for a missing one.

struct GpuReading {
  std::string name;
  double memory_bytes = 0;
  int capability_major = 0, capability_minor = 0;
};

struct DriverReading {
  bool on_the_bus = false;  // a PCI device of NVIDIA's that shows or computes
  std::string version;      // of the kernel's module; empty: not loaded
  int cuda_version = 0;     // newest supported version: 13000 is 13.0; 0: no libcuda.so.1
  std::string why_not;      // why libcuda.so.1 does not load or start
  std::vector<GpuReading> gpus;
};

// `longwave-worker --check-device`: the worker starts with its libraries; the device that it would
// use.
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

// The link to one port.
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
  // Through the control port, which workers do without: an error is no fault.
  absl::StatusOr<SpeedReading> speed;
};

struct CoordinatorReading {
  PortReading control;
  absl::StatusOr<ClockReading> clock;
  absl::StatusOr<SpeedReading> speed;
  // The coordinator's status of the run, if the caller may read it.
  absl::Status status;
  uint32_t shards_wanted = 0;
  std::vector<ShardReading> shards;
};

struct Readings {
  DriverReading driver;
  absl::StatusOr<WorkerReading> worker;
  absl::StatusOr<DiskReading> disk;
  absl::StatusOr<MachineMemory> memory;
  std::optional<CoordinatorReading> coordinator;  // nullopt: no address was given
  std::optional<absl::Status> data;               // the training data; nullopt: not known
};

// A run's requirements of a machine; 0: not known.
struct Needs {
  std::string device = "auto";   // train.device
  double memory_bytes = 0;       // of a worker that computes on the CPU
  double gpu_memory_bytes = 0;   // of a worker that computes on a GPU,
  double host_memory_bytes = 0;  // and its use of host memory
  double checkpoint_bytes = 0;   // on the disk; old and new checkpoint exist for a while
  std::string folder_option = "--state-dir";  // by which another disk is chosen
  double push_bytes = 0;                      // a round, over all shards
  double pull_bytes = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_READINGS_H_
