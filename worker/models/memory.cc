#include "worker/models/memory.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/status_macros.h"
#include "common/config/gpt_shape.h"
#include "common/wire/codec.h"
#include "common/wire/payload.h"

namespace longwave {
namespace {

constexpr double kFloatBytes = 4;
// Bytes of a tile in the layout and in the byte layouts of both directions.
constexpr double kTableBytes = sizeof(Tile) + 2 * (sizeof(TileOffsets) + sizeof(uint32_t));

double Parameters(const Manifest& manifest) {
  return static_cast<double>(ParameterCount(manifest));
}

// Upper bound of the coefficients over all tiles. Only matrices cut by shape are padded noticeably,
// by at most what blocks of 64 × 64 need.
double CoefficientCount(const Manifest& manifest, Tiling tiling) {
  const auto padded = [](double n) { return std::ceil(n / kLayoutBlockMax) * kLayoutBlockMax; };
  double count = 0;
  for (const TensorSpec& tensor : manifest.tensors) {
    double rows = 1, columns = 1;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      (i == 0 && tensor.shape.size() > 1 ? rows : columns) *= static_cast<double>(tensor.shape[i]);
    }
    const bool cut_by_shape = tiling == Tiling::kModel && tensor.shape.size() > 1;
    count += cut_by_shape ? padded(rows) * padded(columns) : rows * columns;
  }
  return count;
}

// Bytes of a payload's values a coefficient. An update of everything may be as large as all
// coefficients.
double PayloadBytesEach(const PayloadFormat& format, double tile_size) {
  const double share =
      format.selection == Selection::kAll ? 1 : std::min(1.0, format.k / tile_size);
  return share * ValueBits(format.codec) / 8;
}

// Pushes and updates may both wait for the other end in full.
double PayloadAndTableBytes(const RunConfig& config, const Manifest& manifest) {
  const SyncSection& sync = config.sync;
  const double coefficients = CoefficientCount(manifest, sync.tiling);
  const double tile_size = sync.tiling == Tiling::kTensor
                               ? static_cast<double>(sync.block) * static_cast<double>(sync.block)
                               : kTileSizeMax;
  return coefficients *
             (PayloadBytesEach(sync.up, tile_size) + PayloadBytesEach(sync.down, tile_size)) +
         coefficients / tile_size * kTableBytes;
}

}  // namespace

MemoryNeed ReplicaMemory(const ModelSection& model, const Manifest& manifest,
                         const TrainSection& train) {
  const uint32_t parts = std::max(1u, train.micro_batches);
  const uint32_t rows = (train.batch + parts - 1) / parts;
  const double parameters = Parameters(manifest);
  return {parameters, 2 * kFloatBytes * parameters +
                          GptActivationBytes(model, rows, train.activation_checkpoints)};
}

MemoryNeed WorkerMemory(const RunConfig& config, const Manifest& manifest) {
  const SyncSection& sync = config.sync;
  MemoryNeed need = ReplicaMemory(config.model, manifest, config.train);
  double floats_a_parameter = 2;  // AdamW's; other optimizers have at most as many
  if (sync.signal == SignalKind::kPseudoGradient) ++floats_a_parameter;
  if (sync.overlap > 0 && sync.blend > 0) ++floats_a_parameter;  // θ at the signal
  if (sync.update == UpdateRule::kNesterov) ++floats_a_parameter;
  need.bytes += floats_a_parameter * kFloatBytes * need.parameter_count;
  need.bytes += CoefficientCount(manifest, sync.tiling) * kFloatBytes;  // momentum
  need.bytes += PayloadAndTableBytes(config, manifest);
  return need;
}

MemoryNeed HostMemory(const RunConfig& config, const Manifest& manifest) {
  const double parameters = Parameters(manifest);
  return {parameters, kFloatBytes * parameters + PayloadAndTableBytes(config, manifest)};
}

double CheckpointBytes(const RunConfig& config, const Manifest& manifest) {
  return kFloatBytes * (2 * Parameters(manifest) + CoefficientCount(manifest, config.sync.tiling));
}

uint32_t WorkersHere(const RunConfig& config) {
  const std::string& address = config.cluster.coordinator;
  const bool loopback = absl::StartsWith(address, "127.") || absl::StartsWith(address, "[::1]") ||
                        absl::StartsWith(address, "localhost:");
  return loopback ? std::max(1u, config.run.workers) : 1;
}

absl::Status CheckMemory(const MemoryNeed& need, uint32_t workers_here, const MachineMemory& memory,
                         const MemoryPlace& place) {
  const std::string wanted =
      absl::StrCat("model: ", FormatCount(need.parameter_count), " parameters want about ",
                   FormatBytes(need.bytes), " of ", place.memory, " for ");
  if (need.bytes > memory.available_bytes) {
    return ResourceExhausted(wanted, "this worker, ", FormatBytes(memory.available_bytes),
                             " are available");
  }
  if (need.bytes * workers_here > memory.total_bytes) {
    return ResourceExhausted(wanted, "each of the ", workers_here, " workers on this ", place.owner,
                             ", which has ", FormatBytes(memory.total_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckFit(const RunConfig& config, bool has_folder, const Manifest& manifest,
                      const KernelOps& ops) {
  const uint32_t workers_here = WorkersHere(config);
  const bool keeps = has_folder && CanCatchUp(config) && config.cluster.checkpoint_rounds > 0;
  const double checkpoint = keeps ? CheckpointBytes(config, manifest) : 0;
  MemoryNeed need = WorkerMemory(config, manifest);
  LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory machine, ReadMachineMemory());
  if (!ops.on_device) {
    need.bytes += checkpoint;
    return CheckMemory(need, workers_here, machine);
  }
  LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory gpu, ops.memory());
  LONGWAVE_RETURN_IF_ERROR(CheckMemory(need, workers_here, gpu, kGpuMemory));
  MemoryNeed on_host = HostMemory(config, manifest);
  on_host.bytes += checkpoint;
  return CheckMemory(on_host, workers_here, machine);
}

}  // namespace longwave
