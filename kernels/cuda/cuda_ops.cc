// The CUDA backend: one block a tile, plain on purpose; a later issue makes it fast.
//
// What has not been tried yet: these sources compile and link, but have not run on a GPU. Their
// arithmetic is that of the CPU backend line by line, and tests/gpu/run.sh holds it to the same
// bits on the first machine that has one.
//
// An operation here is done when it returns, which is more than ops.h asks: payloads lie in
// pageable host memory, so that they go through the workspace's pinned buffers, which the next call
// needs.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/wire/tile_codec.h"
#include "kernels/backends.h"
#include "kernels/check_args.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/jobs.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/workspace.h"

namespace longwave::cuda {
namespace {

cudaStream_t StreamOf(const Exec& exec) { return static_cast<cudaStream_t>(exec.stream); }

absl::Status Synchronize(cudaStream_t stream) {
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream));
  return absl::OkStatus();
}

// Waits for the stream when a call ends early, so that no copy is under way in buffers that the
// next call takes. What the stream then says is the next call's to report: this one has an error
// already.
class DrainOnExit {
 public:
  explicit DrainOnExit(cudaStream_t stream) : stream_(stream) {}
  ~DrainOnExit() { static_cast<void>(cudaStreamSynchronize(stream_)); }
  DrainOnExit(const DrainOnExit&) = delete;
  DrainOnExit& operator=(const DrainOnExit&) = delete;

 private:
  cudaStream_t stream_;
};

// Brings the jobs of a segment's tiles to the device; returns their number. The plans are those of
// `direction` where there is a transform. payload_layout may be null (hash).
absl::StatusOr<uint32_t> SendJobs(Workspace& workspace, cudaStream_t stream, const Layout& layout,
                                  uint32_t segment_index, const PayloadLayout* payload_layout,
                                  Transform transform, DctDirection direction, uint64_t run_seed,
                                  uint32_t round) {
  const Segment& segment = layout.segments()[segment_index];
  const auto tiles = layout.tiles(segment);
  const size_t bytes = tiles.size() * sizeof(TileJob);
  LONGWAVE_RETURN_IF_ERROR(workspace.jobs.Reserve(bytes));
  LONGWAVE_RETURN_IF_ERROR(workspace.jobs_host.Reserve(bytes));
  static_assert(std::is_trivially_copyable_v<TileJob>);
  for (uint32_t t = 0; t < tiles.size(); ++t) {
    const Tile& tile = tiles[t];
    TileJob job = {};
    job.offset = tile.offset;
    job.coefficient_offset = tile.coefficient_offset;
    job.row_stride = tile.row_stride;
    job.rows = tile.rows;
    job.cols = tile.cols;
    job.rows_valid = tile.rows_valid;
    job.cols_valid = tile.cols_valid;
    if (payload_layout != nullptr) {
      job.count = payload_layout->sent_count(t);
      job.draw = SelectionDraw(run_seed, round, uint64_t{segment.tile_begin} + t);
      job.scale_at = payload_layout->offsets(t).scale;
      job.indices_at = payload_layout->offsets(t).indices;
      job.values_at = payload_layout->offsets(t).values;
    }
    if (transform == Transform::kDct) {
      LONGWAVE_ASSIGN_OR_RETURN(job.down, workspace.PlanOnDevice(tile.rows, direction));
      LONGWAVE_ASSIGN_OR_RETURN(job.along, workspace.PlanOnDevice(tile.cols, direction));
      job.norm = DctNorm(tile.rows, tile.cols);
    }
    std::memcpy(workspace.jobs_host.as<TileJob>() + t, &job, sizeof job);
  }
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(workspace.jobs.as<void>(),
                                                workspace.jobs_host.as<void>(), bytes,
                                                cudaMemcpyHostToDevice, stream));
  return static_cast<uint32_t>(tiles.size());
}

absl::Status ReservePayload(Workspace& workspace, size_t bytes) {
  LONGWAVE_RETURN_IF_ERROR(workspace.payload.Reserve(bytes));
  return workspace.payload_host.Reserve(bytes);
}

absl::Status SendPayload(Workspace& workspace, cudaStream_t stream,
                         std::span<const std::byte> payload) {
  LONGWAVE_RETURN_IF_ERROR(ReservePayload(workspace, payload.size()));
  std::memcpy(workspace.payload_host.as<void>(), payload.data(), payload.size());
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(workspace.payload.as<void>(),
                                                workspace.payload_host.as<void>(), payload.size(),
                                                cudaMemcpyHostToDevice, stream));
  return absl::OkStatus();
}

absl::Status Encode(const Exec& exec, const EncodeArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  Workspace& workspace = Workspace::Get();
  const std::lock_guard lock(workspace.mutex);
  const cudaStream_t stream = StreamOf(exec);
  const DrainOnExit drain(stream);
  const PayloadFormat& format = args.payload_layout->format();
  LONGWAVE_ASSIGN_OR_RETURN(
      const uint32_t tile_count,
      SendJobs(workspace, stream, *args.layout, args.segment, args.payload_layout, args.transform,
               DctDirection::kForward, args.run_seed, args.round));
  BeginPayload(*args.payload_layout, args.payload);
  LONGWAVE_RETURN_IF_ERROR(SendPayload(workspace, stream, args.payload));
  const size_t report_bytes = tile_count * sizeof(TileReport);
  LONGWAVE_RETURN_IF_ERROR(workspace.reports.Reserve(report_bytes));
  LONGWAVE_RETURN_IF_ERROR(workspace.reports_host.Reserve(report_bytes));

  EncodeLaunch launch = {};
  launch.jobs = workspace.jobs.as<TileJob>();
  launch.tile_count = tile_count;
  launch.signal_a = args.signal.a;
  launch.signal_b = args.signal.b;
  launch.signal_scale = args.signal.scale;
  launch.signal_is_bf16 = args.signal.type == ElementType::kBf16;
  launch.beta = args.beta;
  launch.alpha = args.alpha;
  launch.momentum = args.momentum;
  launch.selection = static_cast<uint8_t>(format.selection);
  launch.codec = static_cast<uint8_t>(format.codec);
  launch.scale_code_max = HasScale(format.codec) ? ScaleCodeMax(format.codec) : uint16_t{0};
  launch.payload = workspace.payload.as<unsigned char>();
  launch.reports = workspace.reports.as<TileReport>();
  LONGWAVE_CUDA_RETURN_IF_ERROR(Launch(launch, stream));

  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(workspace.payload_host.as<void>(),
                                                workspace.payload.as<void>(), args.payload.size(),
                                                cudaMemcpyDeviceToHost, stream));
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(workspace.reports_host.as<void>(),
                                                workspace.reports.as<void>(), report_bytes,
                                                cudaMemcpyDeviceToHost, stream));
  LONGWAVE_RETURN_IF_ERROR(Synchronize(stream));
  std::memcpy(args.payload.data(), workspace.payload_host.as<void>(), args.payload.size());
  EncodeReport total;
  for (uint32_t t = 0; t < tile_count; ++t) {
    const TileReport& report = workspace.reports_host.as<TileReport>()[t];
    if (report.finite == 0) {
      total.nonfinite_tile = std::min(total.nonfinite_tile, t);
      continue;
    }
    total.signal_square_sum += report.signal;
    total.momentum_square_sum += report.momentum;
    total.sent_square_sum += report.sent;
  }
  *args.report = total;
  return absl::OkStatus();
}

absl::Status Restore(const Exec& exec, const RestoreArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  Workspace& workspace = Workspace::Get();
  const std::lock_guard lock(workspace.mutex);
  const cudaStream_t stream = StreamOf(exec);
  const DrainOnExit drain(stream);
  RestoreLaunch launch = {};
  LONGWAVE_ASSIGN_OR_RETURN(
      launch.tile_count,
      SendJobs(workspace, stream, *args.layout, args.segment, args.payload_layout, Transform::kNone,
               DctDirection::kForward, args.run_seed, args.round));
  LONGWAVE_RETURN_IF_ERROR(SendPayload(workspace, stream, args.payload));
  launch.jobs = workspace.jobs.as<TileJob>();
  launch.alpha = args.alpha;
  launch.momentum = args.momentum;
  launch.selection = static_cast<uint8_t>(args.payload_layout->format().selection);
  launch.codec = static_cast<uint8_t>(args.payload_layout->format().codec);
  launch.payload = workspace.payload.as<unsigned char>();
  LONGWAVE_CUDA_RETURN_IF_ERROR(Launch(launch, stream));
  return Synchronize(stream);
}

absl::Status DecodeUpdate(const Exec& exec, const DecodeUpdateArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  Workspace& workspace = Workspace::Get();
  const std::lock_guard lock(workspace.mutex);
  const cudaStream_t stream = StreamOf(exec);
  const DrainOnExit drain(stream);
  DecodeUpdateLaunch launch = {};
  LONGWAVE_ASSIGN_OR_RETURN(
      launch.tile_count,
      SendJobs(workspace, stream, *args.layout, args.segment, args.payload_layout, args.transform,
               DctDirection::kInverse, args.run_seed, args.round));
  LONGWAVE_RETURN_IF_ERROR(SendPayload(workspace, stream, args.payload));
  launch.jobs = workspace.jobs.as<TileJob>();
  launch.selection = static_cast<uint8_t>(args.payload_layout->format().selection);
  launch.codec = static_cast<uint8_t>(args.payload_layout->format().codec);
  launch.update = static_cast<uint8_t>(args.update);
  launch.eta = args.eta;
  launch.mu = args.mu;
  launch.keep = args.keep;
  launch.beta = args.beta;
  launch.payload = workspace.payload.as<unsigned char>();
  launch.theta = args.theta;
  launch.velocity = args.velocity;
  launch.gradient = args.gradient;
  launch.momentum = args.momentum;
  launch.signal_a = args.signal.a;
  launch.signal_b = args.signal.b;
  launch.signal_scale = args.signal.scale;
  launch.signal_is_bf16 = args.signal.type == ElementType::kBf16;
  LONGWAVE_CUDA_RETURN_IF_ERROR(Launch(launch, stream));
  return Synchronize(stream);
}

absl::Status HashSegment(const Exec& exec, const Layout& layout, uint32_t segment,
                         const float* theta, uint64_t* hash) {
  Workspace& workspace = Workspace::Get();
  const std::lock_guard lock(workspace.mutex);
  const cudaStream_t stream = StreamOf(exec);
  const DrainOnExit drain(stream);
  HashLaunch launch = {};
  LONGWAVE_ASSIGN_OR_RETURN(launch.tile_count,
                            SendJobs(workspace, stream, layout, segment, nullptr, Transform::kNone,
                                     DctDirection::kForward, 0, 0));
  LONGWAVE_RETURN_IF_ERROR(workspace.reports.Reserve(sizeof(unsigned long long)));
  LONGWAVE_RETURN_IF_ERROR(workspace.reports_host.Reserve(sizeof(unsigned long long)));
  launch.jobs = workspace.jobs.as<TileJob>();
  launch.theta = theta;
  launch.hash = workspace.reports.as<unsigned long long>();
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(launch.hash, 0, sizeof *launch.hash, stream));
  LONGWAVE_CUDA_RETURN_IF_ERROR(Launch(launch, stream));
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(workspace.reports_host.as<void>(), launch.hash,
                                                sizeof *launch.hash, cudaMemcpyDeviceToHost,
                                                stream));
  LONGWAVE_RETURN_IF_ERROR(Synchronize(stream));
  *hash = *workspace.reports_host.as<unsigned long long>();
  return absl::OkStatus();
}

absl::Status Hash(const Exec& exec, const HashArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  for (uint32_t s = 0; s < args.hashes.size(); ++s) {
    LONGWAVE_RETURN_IF_ERROR(
        HashSegment(exec, *args.layout, args.segment_begin + s, args.theta, &args.hashes[s]));
  }
  return absl::OkStatus();
}

absl::Status Finish(const Exec&, uint32_t) { return absl::OkStatus(); }

absl::Status Copy(const Exec& exec, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (to == nullptr || from == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("copy of ", bytes, " bytes: an array is null"));
  }
  LONGWAVE_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, StreamOf(exec)));
  return absl::OkStatus();
}

absl::StatusOr<void*> Allocate(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, std::max<size_t>(1, bytes));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // told here; no later call shall find it
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory on the GPU for an array of ", bytes, " bytes"));
  }
  LONGWAVE_CUDA_RETURN_IF_ERROR(error);
  if (absl::Status status =
          ToStatus(cudaMemset(memory, 0, bytes), "cudaMemset", __FILE__, __LINE__);
      !status.ok()) {
    static_cast<void>(cudaFree(memory));
    return status;
  }
  // The zeros must be there for streams that do not wait for the default one.
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize());
  return memory;
}

absl::StatusOr<MachineMemory> Memory() {
  size_t available = 0, total = 0;
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&available, &total));
  return MachineMemory{.available_bytes = static_cast<double>(available),
                       .total_bytes = static_cast<double>(total)};
}

void Release(void* memory) { static_cast<void>(cudaFree(memory)); }

absl::Status Wait(const Exec& exec) { return Synchronize(StreamOf(exec)); }

}  // namespace

absl::StatusOr<const KernelOps*> Ops() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    return absl::UnavailableError(
        absl::StrCat("no CUDA device: ",
                     error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error)));
  }
  static const KernelOps ops = {"cuda", Encode,    Finish,   Restore, DecodeUpdate,
                                Hash,   Copy,      Allocate, Release, Wait,
                                AdamW,  SquareSum, Scale,    Memory,  true};
  return &ops;
}

}  // namespace longwave::cuda
