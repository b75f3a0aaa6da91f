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

// Uploads the payloads of at most kRunsMax segments and enqueues work over their tiles:
// enqueue(runs), which has a run without tiles for each segment, is called once. `stream` reaches
// its work only after the upload.
template <typename Args, typename F>
absl::Status WithPayloads(Workspace& workspace, cudaStream_t stream, std::span<const Args> all,
                          const F& enqueue) {
  size_t payload_bytes = 0, places_bytes = 0;
  for (const Args& args : all) {
    payload_bytes += AlignedForPayload(args.payload.size());
    places_bytes += PlacesBytes(*args.payload_layout);
  }
  LONGWAVE_ASSIGN_OR_RETURN(Transit * transit, workspace.NextStaging(payload_bytes + places_bytes));
  TileRun runs[kRunsMax];
  size_t payload = 0, places = payload_bytes, bytes = payload_bytes;
  for (size_t i = 0; i < all.size(); ++i) {
    const Args& args = all[i];
    runs[i] = {};
    runs[i].payload = PayloadIn(*transit, payload, places, *args.payload_layout,
                                SelectionKey(args.run_seed, args.round));
    runs[i].segment_begin = args.layout->segments()[args.segment].tile_begin;
    std::memcpy(transit->host.as<std::byte>() + payload, args.payload.data(), args.payload.size());
    payload += AlignedForPayload(args.payload.size());
    places += PlacesBytes(*args.payload_layout);
    if (runs[i].payload.places != nullptr) bytes = places;
  }
  const auto run = [&]() -> absl::Status {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(transit->device.as<void>(),
                                                  transit->host.as<void>(), bytes,
                                                  cudaMemcpyHostToDevice, workspace.upload));
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventRecord(transit->copied, workspace.upload));
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, transit->copied));
    LONGWAVE_RETURN_IF_ERROR(enqueue(std::span<TileRun>(runs, all.size())));
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

// Whether a launch can decode both.
bool AreAlike(const DecodeUpdateArgs& x, const DecodeUpdateArgs& y) {
  return x.layout == y.layout && x.transform == y.transform && x.update == y.update &&
         x.eta == y.eta && x.mu == y.mu && x.keep == y.keep && x.theta == y.theta &&
         x.velocity == y.velocity && x.gradient == y.gradient && x.signal.a == y.signal.a &&
         x.signal.b == y.signal.b && x.signal.scale == y.signal.scale && x.beta == y.beta &&
         x.momentum == y.momentum && x.payload_layout->format() == y.payload_layout->format();
}

// Of at most kRunsMax segments that are alike.
absl::Status DecodeUpdateTiles(Workspace& workspace, cudaStream_t stream,
                               std::span<const DecodeUpdateArgs> alike) {
  const DecodeUpdateArgs& common = alike.front();
  DecodeJob job = {};
  job.update = static_cast<uint8_t>(common.update);
  job.eta = common.eta;
  job.mu = common.mu;
  job.keep = common.keep;
  job.beta = common.beta;
  job.theta = common.theta;
  job.velocity = common.velocity;
  job.gradient = common.gradient;
  job.momentum = common.momentum;
  job.signal = common.signal;
  const PayloadFormat& format = common.payload_layout->format();
  LONGWAVE_ASSIGN_OR_RETURN(job.tiles.tiles, workspace.tables.TilesOf(*common.layout));
  if (common.transform == Transform::kDct) {
    LONGWAVE_ASSIGN_OR_RETURN(job.tiles.plans, workspace.tables.PlansOf(*common.layout));
    if (format.selection != Selection::kAll && common.update != UpdateKind::kLocal &&
        DctInverseBySums(64, 64, format.k)) {
      LONGWAVE_ASSIGN_OR_RETURN(job.basis, workspace.tables.Basis());
    }
  }
  const auto launch = [&](TileKernel kernel, std::span<const TileRun> runs) {
    SetRuns(runs, job.tiles);
    return LONGWAVE_CUDA_STATUS(Launch(kernel, job, stream));
  };
  return WithPayloads(workspace, stream, alike, [&](std::span<TileRun> runs) -> absl::Status {
    RunsByKernel by_kernel(launch);
    for (size_t i = 0; i < alike.size(); ++i) {
      const auto add = [&](TileKernel kernel, uint32_t first, uint32_t count) {
        runs[i].first = first;
        runs[i].count = count;
        return by_kernel.Add(kernel, runs[i]);
      };
      LONGWAVE_RETURN_IF_ERROR(
          ForEachRun(common.layout->tiles(common.layout->segments()[alike[i].segment]),
                     common.transform, format, add));
    }
    return by_kernel.LaunchAll();
  });
}

absl::Status RestoreTiles(Workspace& workspace, cudaStream_t stream, const RestoreArgs& args) {
  RestoreJob job = {};
  LONGWAVE_ASSIGN_OR_RETURN(job.tiles.tiles, workspace.tables.TilesOf(*args.layout));
  job.alpha = args.alpha;
  job.momentum = args.momentum;
  return WithPayloads(workspace, stream, std::span(&args, 1), [&](std::span<TileRun> runs) {
    runs[0].count = runs[0].payload.tile_count;
    SetRuns(runs, job.tiles);
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

absl::Status DecodeUpdate(const Exec& exec, std::span<const DecodeUpdateArgs> all) {
  for (const DecodeUpdateArgs& args : all) LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  LONGWAVE_ASSIGN_OR_RETURN(Workspace * workspace, Workspace::Get());
  const std::lock_guard lock(workspace->mutex);
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && end - begin < kRunsMax && AreAlike(all[begin], all[end])) ++end;
    LONGWAVE_RETURN_IF_ERROR(
        Prefixed("decode_update",
                 DecodeUpdateTiles(*workspace, StreamOf(exec), all.subspan(begin, end - begin))));
  }
  return absl::OkStatus();
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
    status = Await(transit->copied);
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
