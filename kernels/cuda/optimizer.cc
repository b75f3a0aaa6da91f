#include "kernels/cuda/optimizer.h"

#include <mutex>
#include <utility>

#include "common/base/status_macros.h"
#include "kernels/check_args.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/dense_ops.h"
#include "kernels/cuda/workspace.h"

namespace longwave::cuda {
namespace {

// Kept between calls, so that they allocate nothing.
struct SumMemory {
  std::mutex mutex;
  GrowingMemory sums{MemoryKind::kDevice};
  GrowingMemory result{MemoryKind::kPinnedHost};

  // Never destroyed, since the runtime may be unloaded before.
  static SumMemory& Get() {
    static SumMemory* const memory = new SumMemory;
    return *memory;
  }
};

// Enqueues the sums of `chunks` chunks and of their sums, level by level; the last goes to
// memory.result.
absl::Status EnqueueSums(const SquareSumArgs& args, uint64_t chunks, cudaStream_t stream,
                         const SumMemory& memory) {
  double* from = memory.sums.as<double>();
  double* to = from + chunks;
  LONGWAVE_CUDA_RETURN_IF_ERROR(LaunchSquareSums(args.count, args.x, from, stream));
  while (chunks > 1) {
    LONGWAVE_CUDA_RETURN_IF_ERROR(LaunchPairSums(chunks, from, to, stream));
    chunks = (chunks + kPairSumWidth - 1) / kPairSumWidth;
    std::swap(from, to);
  }
  return LONGWAVE_CUDA_STATUS(cudaMemcpyAsync(memory.result.as<double>(), from, sizeof(double),
                                              cudaMemcpyDeviceToHost, stream));
}

}  // namespace

absl::Status AdamW(const Exec& exec, const AdamWArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  if (args.count == 0) return absl::OkStatus();
  return LONGWAVE_CUDA_STATUS(LaunchAdamW(args, StreamOf(exec)));
}

absl::Status Scale(const Exec& exec, const ScaleArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  if (args.count == 0) return absl::OkStatus();
  return LONGWAVE_CUDA_STATUS(LaunchScale(args, StreamOf(exec)));
}

absl::Status Blend(const Exec& exec, const BlendArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  if (args.begin == args.end) return absl::OkStatus();
  if (args.alpha == 0) {
    return LONGWAVE_CUDA_STATUS(cudaMemcpyAsync(args.theta + args.begin, args.anchor + args.begin,
                                                (args.end - args.begin) * sizeof(float),
                                                cudaMemcpyDeviceToDevice, StreamOf(exec)));
  }
  return LONGWAVE_CUDA_STATUS(LaunchBlend(args, StreamOf(exec)));
}

absl::Status SquareSum(const Exec& exec, const SquareSumArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  *args.sum = 0;
  if (args.count == 0) return absl::OkStatus();
  SumMemory& memory = SumMemory::Get();
  const std::lock_guard lock(memory.mutex);
  const cudaStream_t stream = StreamOf(exec);
  const uint64_t count = (args.count + kSquareSumChunk - 1) / kSquareSumChunk;
  // The chunks' sums, and room for the first level above them; levels alternate.
  const uint64_t above = (count + kPairSumWidth - 1) / kPairSumWidth;
  LONGWAVE_RETURN_IF_ERROR(memory.sums.Reserve((count + above) * sizeof(double)));
  LONGWAVE_RETURN_IF_ERROR(memory.result.Reserve(sizeof(double)));
  const absl::Status enqueued = EnqueueSums(args, count, stream, memory);
  // On errors too, since the next call takes the same memory.
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream));
  LONGWAVE_RETURN_IF_ERROR(enqueued);
  *args.sum = *memory.result.as<double>();
  return absl::OkStatus();
}

}  // namespace longwave::cuda
