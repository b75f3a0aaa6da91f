// The host side of the encoder: enqueues work, and collects its results later.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

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

// Transforms the tiles of the job's only run by an FFT into job.spectrum.
absl::Status RunFft(Workspace& workspace, cudaStream_t stream, EncodeJob& job) {
  constexpr size_t kRunBytes = (kTileSizeMax + 2) * sizeof(float);
  // A single buffer for all streams: each stream waits for the buffer's last user.
  if (workspace.spectra_used == nullptr) {
    LONGWAVE_CUDA_RETURN_IF_ERROR(
        cudaEventCreateWithFlags(&workspace.spectra_used, cudaEventDisableTiming));
  }
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, workspace.spectra_used));
  const uint32_t count = job.tiles.runs[0].count;
  if (!workspace.spectra.Holds(count * kRunBytes)) {
    // Work under way in the buffer must end before it is freed.
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(workspace.spectra_used));
  }
  LONGWAVE_RETURN_IF_ERROR(workspace.spectra.Reserve(count * kRunBytes));
  float* const runs = workspace.spectra.as<float>();
  LONGWAVE_CUDA_RETURN_IF_ERROR(LaunchFftInput(job, runs, stream));
  LONGWAVE_RETURN_IF_ERROR(FftRuns(runs, count, stream));
  job.spectrum = runs;
  return absl::OkStatus();
}

absl::Status LaunchByFft(Workspace& workspace, cudaStream_t stream, EncodeJob& job) {
  // Where it fails, for want of memory perhaps, the kernel goes by stages. A fault of the device
  // shows at the kernel's launch.
  static_cast<void>(RunFft(workspace, stream, job));
  LONGWAVE_CUDA_RETURN_IF_ERROR(Launch(TileKernel::kGeneral, job, stream));
  job.spectrum = nullptr;
  if (workspace.spectra_used == nullptr) return absl::OkStatus();
  return LONGWAVE_CUDA_STATUS(cudaEventRecord(workspace.spectra_used, stream));
}

// Whether a launch can encode both.
bool AreAlike(const EncodeArgs& x, const EncodeArgs& y) {
  return x.layout == y.layout && x.signal.a == y.signal.a && x.signal.b == y.signal.b &&
         x.signal.scale == y.signal.scale && x.transform == y.transform && x.alpha == y.alpha &&
         x.momentum == y.momentum;
}

// A call's results in their transit: the reports of its tiles, the payloads, and the places of
// tiles of many sizes.
struct Results {
  size_t payloads_begin = 0, places_begin = 0, bytes = 0;

  explicit Results(std::span<const EncodeArgs> all) {
    size_t payload_bytes = 0, places_bytes = 0;
    for (const EncodeArgs& args : all) {
      payloads_begin += ReportBytes(args.payload_layout->tile_count());
      payload_bytes += AlignedForPayload(args.payload.size());
      places_bytes += PlacesBytes(*args.payload_layout);
    }
    payloads_begin = AlignedForPayload(payloads_begin);
    places_begin = payloads_begin + payload_bytes;
    bytes = places_begin + places_bytes;
  }
};

// Enqueues the encoders of segments of which a launch takes all. `runs` begin as those of the
// segments' payloads and reports, without tiles.
absl::Status LaunchAlike(Workspace& workspace, cudaStream_t stream,
                         std::span<const EncodeArgs> alike, std::span<const TileRun> runs) {
  const EncodeArgs& common = alike.front();
  EncodeJob job = {};
  LONGWAVE_ASSIGN_OR_RETURN(job.tiles.tiles, workspace.tables.TilesOf(*common.layout));
  if (common.transform == Transform::kDct) {
    LONGWAVE_ASSIGN_OR_RETURN(job.tiles.plans, workspace.tables.PlansOf(*common.layout));
  }
  job.signal = common.signal;
  job.alpha = common.alpha;
  job.momentum = common.momentum;
  const auto launch = [&](TileKernel kernel, std::span<const TileRun> of_kernel) {
    SetRuns(of_kernel, job.tiles);
    return LONGWAVE_CUDA_STATUS(Launch(kernel, job, stream));
  };
  RunsByKernel by_kernel(launch);
  for (size_t i = 0; i < alike.size(); ++i) {
    const auto tiles = common.layout->tiles(common.layout->segments()[alike[i].segment]);
    TileRun run = runs[i];
    const auto add = [&](TileKernel kernel, uint32_t first, uint32_t count) -> absl::Status {
      // Runs with an FFT are launched apart from the other tiles of the general kernel.
      for (const uint32_t end = first + count; first < end; first += count) {
        const bool fft = kernel == TileKernel::kGeneral && TakesFft(tiles[first], common.transform);
        count = end - first;
        if (kernel == TileKernel::kGeneral) {
          count = 1;
          while (first + count < end && TakesFft(tiles[first + count], common.transform) == fft) {
            ++count;
          }
        }
        run.first = first;
        run.count = count;
        if (fft) {
          SetRuns({&run, 1}, job.tiles);
          LONGWAVE_RETURN_IF_ERROR(LaunchByFft(workspace, stream, job));
        } else {
          LONGWAVE_RETURN_IF_ERROR(by_kernel.Add(kernel, run));
        }
      }
      return absl::OkStatus();
    };
    LONGWAVE_RETURN_IF_ERROR(
        ForEachRun(tiles, common.transform, alike[i].payload_layout->format(), add));
  }
  return by_kernel.LaunchAll();
}

// Enqueues the copy of the payloads to the host, those that lie one behind another there in one.
absl::Status CopyPayloads(cudaStream_t stream, std::span<const EncodeArgs> all,
                          const std::byte* from) {
  for (size_t i = 0; i < all.size();) {
    std::byte* const to = all[i].payload.data();
    size_t end = 0, next = 0;  // from `to` on
    do {
      end = next + all[i].payload.size();
      next += AlignedForPayload(all[i].payload.size());
      ++i;
    } while (i < all.size() && all[i].payload.data() == to + next);
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, end, cudaMemcpyDeviceToHost, stream));
    from += next;
  }
  return absl::OkStatus();
}

// The segments' encodings are the last of the workspace's.
absl::Status Enqueue(Workspace& workspace, cudaStream_t stream, std::span<const EncodeArgs> all,
                     const Results& results, const Transit& transit) {
  std::byte* const device = transit.device.as<std::byte>();
  std::vector<TileRun>& runs = workspace.runs;
  runs.clear();
  size_t report = 0, payload = results.payloads_begin, places = results.places_begin;
  bool has_places = false;
  for (const EncodeArgs& args : all) {
    TileRun run = {};
    run.payload = PayloadIn(transit, payload, places, *args.payload_layout,
                            SelectionKey(args.run_seed, args.round));
    const ValueCodec codec = args.payload_layout->format().codec;
    if (HasScale(codec)) run.payload.scale_code_max = ScaleCodeMax(codec);
    run.segment_begin = args.layout->segments()[args.segment].tile_begin;
    run.beta = args.beta;
    run.reports = reinterpret_cast<TileReport*>(device + report);
    runs.push_back(run);
    has_places = has_places || run.payload.places != nullptr;
    report += ReportBytes(args.payload_layout->tile_count());
    payload += AlignedForPayload(args.payload.size());
    places += PlacesBytes(*args.payload_layout);
  }
  if (has_places) {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(
        device + results.places_begin, transit.host.as<std::byte>() + results.places_begin,
        results.bytes - results.places_begin, cudaMemcpyHostToDevice, stream));
  }
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && AreAlike(all[begin], all[end])) ++end;
    LONGWAVE_RETURN_IF_ERROR(LaunchAlike(workspace, stream, all.subspan(begin, end - begin),
                                         std::span(runs).subspan(begin, end - begin)));
  }

  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventRecord(transit.used, stream));
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(workspace.download, transit.used));
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(transit.host.as<void>(), device, report,
                                                cudaMemcpyDeviceToHost, workspace.download));
  LONGWAVE_RETURN_IF_ERROR(CopyPayloads(workspace.download, all, device + results.payloads_begin));
  return LONGWAVE_CUDA_STATUS(cudaEventRecord(transit.copied, workspace.download));
}

auto FindEncoding(Workspace& workspace, const Exec& exec, uint32_t segment) {
  return std::find_if(workspace.encodings.begin(), workspace.encodings.end(),
                      [&](const Encoding& encoding) {
                        return encoding.stream == StreamOf(exec) && encoding.owner == exec.owner &&
                               encoding.segment == segment;
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

absl::Status Encode(const Exec& exec, std::span<const EncodeArgs> all) {
  for (const EncodeArgs& args : all) LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  if (all.empty()) return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(Workspace * found, Workspace::Get());
  Workspace& workspace = *found;
  const std::lock_guard lock(workspace.mutex);
  const Results results(all);
  LONGWAVE_ASSIGN_OR_RETURN(Transit * transit, workspace.Take(results.bytes));
  const size_t before = workspace.encodings.size();
  const auto drop = [&](absl::Status status) {
    workspace.encodings.resize(before);
    workspace.Return(transit);
    return status;
  };
  size_t reports_begin = 0;
  for (const EncodeArgs& args : all) {
    if (FindEncoding(workspace, exec, args.segment) != workspace.encodings.end()) {
      return drop(FailedPrecondition("encode: segment ", args.segment,
                                     " has an encoding that was not finished"));
    }
    const uint32_t tile_count = args.payload_layout->tile_count();
    workspace.encodings.push_back({.stream = StreamOf(exec),
                                   .owner = exec.owner,
                                   .segment = args.segment,
                                   .transit = transit,
                                   .reports_begin = reports_begin,
                                   .tile_count = tile_count,
                                   .report = args.report});
    reports_begin += ReportBytes(tile_count);
  }
  if (absl::Status status = Enqueue(workspace, StreamOf(exec), all, results, *transit);
      !status.ok()) {
    // The encodings' kernels may be under way in the transit. Errors of the streams are the next
    // call's to report, since this one has an error already.
    static_cast<void>(cudaStreamSynchronize(StreamOf(exec)));
    static_cast<void>(cudaStreamSynchronize(workspace.download));
    return drop(Prefixed("encode", status));
  }
  transit->encodings = static_cast<uint32_t>(all.size());
  transit->arrived = false;
  return absl::OkStatus();
}

absl::Status Finish(const Exec& exec, uint32_t segment) {
  LONGWAVE_ASSIGN_OR_RETURN(Workspace * workspace, Workspace::Get());
  Encoding encoding;
  bool arrived = false;
  {
    const std::lock_guard lock(workspace->mutex);
    const auto found = FindEncoding(*workspace, exec, segment);
    if (found == workspace->encodings.end()) return absl::OkStatus();
    encoding = *found;
    arrived = encoding.transit->arrived;
    workspace->encodings.erase(found);
  }
  const absl::Status status = arrived ? absl::OkStatus() : Await(encoding.transit->copied);
  if (status.ok()) {
    const auto* const reports = reinterpret_cast<const TileReport*>(
        encoding.transit->host.as<std::byte>() + encoding.reports_begin);
    *encoding.report = Sum({reports, encoding.tile_count});
  }
  const std::lock_guard lock(workspace->mutex);
  encoding.transit->arrived = status.ok();
  if (--encoding.transit->encodings == 0) workspace->Return(encoding.transit);
  return Prefixed("encode", status);
}

}  // namespace longwave::cuda
