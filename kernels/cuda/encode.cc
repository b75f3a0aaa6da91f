// The host side of the encoder: enqueues work, and collects its results later.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/tile_codec.h"
#include "kernels/check_args.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/dense_ops.h"
#include "kernels/cuda/fft.h"
#include "kernels/cuda/segment_tiles.h"
#include "kernels/cuda/workspace.h"

namespace longwave::cuda {
namespace {

std::atomic<RunTransform> run_transform = RunTransform::kFft;

size_t ReportBytes(uint32_t tile_count) { return tile_count * sizeof(TileReport); }
static_assert(sizeof(TileReport) % 16 == 0, "a payload's head is stored as one word of 16 bytes");

// Whether a tile is a run of 4096 that goes through an FFT.
bool TakesFft(const Tile& tile, Transform transform) {
  return transform == Transform::kDct && tile.rows == 1 && tile.cols == kTileSizeMax &&
         run_transform == RunTransform::kFft && FftStatus().ok();
}

// Transforms the runs of `job` by an FFT into job.spectrum.
absl::Status RunFft(Workspace& workspace, cudaStream_t stream, EncodeJob& job) {
  constexpr size_t kRunBytes = (kTileSizeMax + 2) * sizeof(float);
  // A single buffer for all streams: each stream waits for the buffer's last user.
  if (workspace.spectra_used == nullptr) {
    LONGWAVE_CUDA_RETURN_IF_ERROR(
        cudaEventCreateWithFlags(&workspace.spectra_used, cudaEventDisableTiming));
  }
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, workspace.spectra_used));
  if (!workspace.spectra.Holds(job.tiles.count * kRunBytes)) {
    // Work under way in the buffer must end before it is freed.
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(workspace.spectra_used));
  }
  LONGWAVE_RETURN_IF_ERROR(workspace.spectra.Reserve(job.tiles.count * kRunBytes));
  float* const runs = workspace.spectra.as<float>();
  LONGWAVE_CUDA_RETURN_IF_ERROR(LaunchFftInput(job, runs, stream));
  LONGWAVE_RETURN_IF_ERROR(FftRuns(runs, job.tiles.count, stream));
  job.spectrum = runs;
  return absl::OkStatus();
}

absl::Status LaunchTiles(Workspace& workspace, cudaStream_t stream, const EncodeArgs& args,
                         EncodeJob& job) {
  const auto tiles = args.layout->tiles(args.layout->segments()[args.segment]);
  const auto launch = [&](TileKernel kernel, uint32_t first, uint32_t count) -> absl::Status {
    // Runs with an FFT are launched apart from the other tiles of the general kernel.
    for (const uint32_t end = first + count; first < end; first += count) {
      const bool fft = kernel == TileKernel::kGeneral && TakesFft(tiles[first], args.transform);
      count = end - first;
      if (kernel == TileKernel::kGeneral) {
        count = 1;
        while (first + count < end && TakesFft(tiles[first + count], args.transform) == fft) {
          ++count;
        }
      }
      job.tiles.first = first;
      job.tiles.count = count;
      job.spectrum = nullptr;
      // Where it fails, for want of memory perhaps, the kernel goes by stages. A fault of the
      // device shows at the kernel's launch.
      if (fft) static_cast<void>(RunFft(workspace, stream, job));
      LONGWAVE_CUDA_RETURN_IF_ERROR(Launch(kernel, job, stream));
      if (fft && workspace.spectra_used != nullptr) {
        LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventRecord(workspace.spectra_used, stream));
      }
    }
    return absl::OkStatus();
  };
  return ForEachRun(tiles, args.transform, args.payload_layout->format(), launch);
}

absl::Status Enqueue(Workspace& workspace, const EncodeArgs& args, const Encoding& encoding) {
  const Segment& segment = args.layout->segments()[args.segment];
  const PayloadFormat& format = args.payload_layout->format();
  const Transit& transit = *encoding.transit;
  const size_t report_bytes = ReportBytes(encoding.tile_count);
  EncodeJob job = {};
  LONGWAVE_ASSIGN_OR_RETURN(job.tiles.tiles, workspace.tables.TilesOf(*args.layout));
  if (args.transform == Transform::kDct) {
    LONGWAVE_ASSIGN_OR_RETURN(job.tiles.plans, workspace.tables.PlansOf(*args.layout));
  }
  job.tiles.segment_begin = segment.tile_begin;
  job.payload = PayloadIn(transit, report_bytes, *args.payload_layout,
                          SelectionKey(args.run_seed, args.round));
  if (job.payload.places != nullptr) {
    const size_t begin = report_bytes + PlacesBegin(*args.payload_layout);
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(
        transit.device.as<std::byte>() + begin, transit.host.as<std::byte>() + begin,
        encoding.tile_count * sizeof(PayloadPlace), cudaMemcpyHostToDevice, encoding.stream));
  }
  if (HasScale(format.codec)) job.payload.scale_code_max = ScaleCodeMax(format.codec);
  job.signal = args.signal;
  job.beta = args.beta;
  job.alpha = args.alpha;
  job.momentum = args.momentum;
  job.reports = transit.device.as<TileReport>();
  LONGWAVE_RETURN_IF_ERROR(LaunchTiles(workspace, encoding.stream, args, job));

  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventRecord(transit.used, encoding.stream));
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(workspace.download, transit.used));
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(transit.host.as<void>(), transit.device.as<void>(),
                                                report_bytes + encoding.payload.size(),
                                                cudaMemcpyDeviceToHost, workspace.download));
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventRecord(transit.copied, workspace.download));
  return absl::OkStatus();
}

auto FindEncoding(Workspace& workspace, const Exec& exec, uint32_t slot) {
  return std::find_if(workspace.encodings.begin(), workspace.encodings.end(),
                      [&](const Encoding& encoding) {
                        return encoding.stream == StreamOf(exec) && encoding.owner == exec.owner &&
                               encoding.slot == slot;
                      });
}

EncodeReport Sum(std::span<const TileReport> reports) {
  EncodeReport total;
  for (uint32_t t = 0; t < reports.size(); ++t) {
    if (reports[t].finite == 0) {
      total.nonfinite_tile = std::min(total.nonfinite_tile, t);
      continue;
    }
    total.signal_square_sum += reports[t].signal;
    total.momentum_square_sum += reports[t].momentum;
    total.sent_square_sum += reports[t].sent;
  }
  return total;
}

}  // namespace

void SetRunTransform(RunTransform transform) { run_transform = transform; }

absl::Status Encode(const Exec& exec, const EncodeArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  LONGWAVE_ASSIGN_OR_RETURN(Workspace * found, Workspace::Get());
  Workspace& workspace = *found;
  const std::lock_guard lock(workspace.mutex);
  if (FindEncoding(workspace, exec, args.slot) != workspace.encodings.end()) {
    return FailedPrecondition("encode: slot ", args.slot, " has an encoding that was not finished");
  }
  Encoding encoding;
  encoding.stream = StreamOf(exec);
  encoding.owner = exec.owner;
  encoding.slot = args.slot;
  encoding.tile_count = args.payload_layout->tile_count();
  encoding.payload = args.payload;
  encoding.report = args.report;
  LONGWAVE_ASSIGN_OR_RETURN(
      encoding.transit,
      workspace.Take(ReportBytes(encoding.tile_count) + BytesWithPlaces(*args.payload_layout)));
  if (absl::Status status = Enqueue(workspace, args, encoding); !status.ok()) {
    // The encoding's kernels may be under way in the transit. Errors of the streams are the next
    // call's to report, since this one has an error already.
    static_cast<void>(cudaStreamSynchronize(encoding.stream));
    static_cast<void>(cudaStreamSynchronize(workspace.download));
    workspace.Return(encoding.transit);
    return Prefixed("encode", status);
  }
  workspace.encodings.push_back(encoding);
  return absl::OkStatus();
}

absl::Status Finish(const Exec& exec, uint32_t slot) {
  if (slot >= kEncodeSlots) {
    return InvalidArgument("finish: slot ", slot, ", wanted 0 to ", kEncodeSlots - 1);
  }
  LONGWAVE_ASSIGN_OR_RETURN(Workspace * workspace, Workspace::Get());
  Encoding encoding;
  {
    const std::lock_guard lock(workspace->mutex);
    const auto found = FindEncoding(*workspace, exec, slot);
    if (found == workspace->encodings.end()) return absl::OkStatus();
    encoding = *found;
    workspace->encodings.erase(found);
  }
  const Transit& transit = *encoding.transit;
  absl::Status status = LONGWAVE_CUDA_STATUS(cudaEventSynchronize(transit.copied));
  if (status.ok()) {
    const size_t report_bytes = ReportBytes(encoding.tile_count);
    std::memcpy(encoding.payload.data(), transit.host.as<std::byte>() + report_bytes,
                encoding.payload.size());
    *encoding.report = Sum({transit.host.as<TileReport>(), encoding.tile_count});
  }
  const std::lock_guard lock(workspace->mutex);
  workspace->Return(encoding.transit);
  return Prefixed("encode", status);
}

}  // namespace longwave::cuda
