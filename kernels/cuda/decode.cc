// The host side of the decoder, of restore and of hash.
#include <cstring>
#include <mutex>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/tile_codec.h"
#include "kernels/check_args.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/dense_ops.h"
#include "kernels/cuda/segment_tiles.h"
#include "kernels/cuda/workspace.h"
#include "kernels/dct_plan.h"

namespace longwave::cuda {
namespace {

// Uploads a payload and enqueues work over its tiles: enqueue(payload job, tiles job) is called
// once. `stream` reaches its work only after the upload.
template <typename Args, typename F>
absl::Status WithPayload(Workspace& workspace, cudaStream_t stream, const Args& args,
                         const F& enqueue) {
  TilesJob tiles = {};
  LONGWAVE_ASSIGN_OR_RETURN(tiles.tiles, workspace.tables.TilesOf(*args.layout));
  tiles.segment_begin = args.layout->segments()[args.segment].tile_begin;

  const size_t bytes_with_places = BytesWithPlaces(*args.payload_layout);
  LONGWAVE_ASSIGN_OR_RETURN(Transit * transit, workspace.NextStaging(bytes_with_places));
  const PayloadJob payload =
      PayloadIn(*transit, 0, *args.payload_layout, SelectionKey(args.run_seed, args.round));
  const size_t bytes = payload.places == nullptr ? args.payload.size() : bytes_with_places;
  std::memcpy(transit->host.as<void>(), args.payload.data(), args.payload.size());
  const auto run = [&]() -> absl::Status {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(transit->device.as<void>(),
                                                  transit->host.as<void>(), bytes,
                                                  cudaMemcpyHostToDevice, workspace.upload));
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventRecord(transit->copied, workspace.upload));
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, transit->copied));
    LONGWAVE_RETURN_IF_ERROR(enqueue(payload, tiles));
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventRecord(transit->used, stream));
    return absl::OkStatus();
  };
  const absl::Status status = run();
  if (!status.ok()) {
    // No event marks the staging as free, so the streams are drained. Their errors are the next
    // call's to report.
    static_cast<void>(cudaStreamSynchronize(workspace.upload));
    static_cast<void>(cudaStreamSynchronize(stream));
  }
  return status;
}

absl::Status DecodeUpdateTiles(Workspace& workspace, cudaStream_t stream,
                               const DecodeUpdateArgs& args) {
  DecodeJob job = {};
  job.update = static_cast<uint8_t>(args.update);
  job.eta = args.eta;
  job.mu = args.mu;
  job.keep = args.keep;
  job.beta = args.beta;
  job.theta = args.theta;
  job.velocity = args.velocity;
  job.gradient = args.gradient;
  job.momentum = args.momentum;
  job.signal = args.signal;
  const DctPlanView* plans = nullptr;
  if (args.transform == Transform::kDct) {
    LONGWAVE_ASSIGN_OR_RETURN(plans, workspace.tables.PlansOf(*args.layout));
    const PayloadFormat& format = args.payload_layout->format();
    if (format.selection != Selection::kAll && args.update != UpdateKind::kLocal &&
        DctInverseBySums(64, 64, format.k)) {
      LONGWAVE_ASSIGN_OR_RETURN(job.basis, workspace.tables.Basis());
    }
  }
  return WithPayload(workspace, stream, args, [&](const PayloadJob& payload, const TilesJob& all) {
    job.payload = payload;
    job.tiles = all;
    job.tiles.plans = plans;
    return ForEachRun(args.layout->tiles(args.layout->segments()[args.segment]), args.transform,
                      args.payload_layout->format(),
                      [&](TileKernel kernel, uint32_t first, uint32_t count) -> absl::Status {
                        job.tiles.first = first;
                        job.tiles.count = count;
                        return LONGWAVE_CUDA_STATUS(Launch(kernel, job, stream));
                      });
  });
}

absl::Status RestoreTiles(Workspace& workspace, cudaStream_t stream, const RestoreArgs& args) {
  return WithPayload(workspace, stream, args,
                     [&](const PayloadJob& payload, const TilesJob& all) -> absl::Status {
                       RestoreJob job = {};
                       job.payload = payload;
                       job.tiles = all;
                       job.tiles.count = payload.tile_count;
                       job.alpha = args.alpha;
                       job.momentum = args.momentum;
                       return LONGWAVE_CUDA_STATUS(Launch(job, stream));
                     });
}

absl::Status EnqueueHash(Workspace& workspace, cudaStream_t stream, const HashArgs& args,
                         const Transit& transit) {
  const auto segments = args.layout->segments();
  const Segment& first = segments[args.segment_begin];
  const Segment& last = segments[args.segment_begin + args.hashes.size() - 1];
  const size_t bytes = args.hashes.size_bytes();
  HashJob job = {};
  LONGWAVE_ASSIGN_OR_RETURN(job.tiles, workspace.tables.TilesOf(*args.layout));
  job.tile_begin = first.tile_begin;
  job.tile_count = last.tile_begin + last.tile_count - first.tile_begin;
  job.segment_begin = args.segment_begin;
  job.segment_tiles = args.layout->options().segment_tiles;
  job.theta = args.theta;
  job.hashes = transit.device.as<unsigned long long>();
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(job.hashes, 0, bytes, stream));
  LONGWAVE_CUDA_RETURN_IF_ERROR(Launch(job, stream));
  LONGWAVE_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(transit.host.as<void>(), job.hashes, bytes, cudaMemcpyDeviceToHost, stream));
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventRecord(transit.copied, stream));
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeUpdate(const Exec& exec, const DecodeUpdateArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  LONGWAVE_ASSIGN_OR_RETURN(Workspace * workspace, Workspace::Get());
  const std::lock_guard lock(workspace->mutex);
  return Prefixed("decode_update", DecodeUpdateTiles(*workspace, StreamOf(exec), args));
}

absl::Status Restore(const Exec& exec, const RestoreArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  LONGWAVE_ASSIGN_OR_RETURN(Workspace * workspace, Workspace::Get());
  const std::lock_guard lock(workspace->mutex);
  return Prefixed("restore", RestoreTiles(*workspace, StreamOf(exec), args));
}

absl::Status Hash(const Exec& exec, const HashArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  LONGWAVE_ASSIGN_OR_RETURN(Workspace * workspace, Workspace::Get());
  const cudaStream_t stream = StreamOf(exec);
  Transit* transit = nullptr;
  absl::Status status;
  {
    const std::lock_guard lock(workspace->mutex);
    LONGWAVE_ASSIGN_OR_RETURN(transit, workspace->Take(args.hashes.size_bytes()));
    status = EnqueueHash(*workspace, stream, args, *transit);
  }
  if (status.ok()) {
    status = LONGWAVE_CUDA_STATUS(cudaEventSynchronize(transit->copied));
  } else {
    static_cast<void>(cudaStreamSynchronize(stream));
  }
  if (status.ok()) {
    std::memcpy(args.hashes.data(), transit->host.as<void>(), args.hashes.size_bytes());
  }
  const std::lock_guard lock(workspace->mutex);
  workspace->Return(transit);
  return Prefixed("hash", status);
}

}  // namespace longwave::cuda
