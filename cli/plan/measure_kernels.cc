#include "cli/plan/measure_kernels.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "cli/plan/segment_sizes.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/wire/crc32c.h"
#include "common/wire/payload.h"
#include "kernels/ops.h"
#include "worker/member/sync_options.h"
#include "worker/sync/pipeline.h"

namespace longwave {
namespace {

constexpr uint32_t kTiles = 512;
constexpr uint32_t kRounds = 3;      // the first one is for caches and pages
constexpr uint32_t kWorkersMax = 4;  // the merge's time grows with the contributions

// The seconds that a call takes, if it is well.
absl::Status Time(double* seconds, auto&& call) {
  const absl::Time begin = MonotonicNow();
  const absl::Status status = call();
  *seconds += absl::ToDoubleSeconds(MonotonicNow() - begin);
  return status;
}

struct SampleWorker {
  std::vector<float> theta, gradient;
  std::unique_ptr<SyncPipeline> pipeline;
};

}  // namespace

absl::StatusOr<PlanRates> MeasureKernels(const RunConfig& config, int threads) {
  const LayoutOptions layout_options{
      .tiling = config.sync.tiling, .block = config.sync.block, .segment_tiles = kTiles};
  const int64_t side = config.sync.tiling == Tiling::kTensor ? config.sync.block : kLayoutBlockMax;
  const Manifest manifest{{{"sample", {side, kTiles * side}}}};
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(manifest, layout_options));
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* const ops, OpsFor(BackendKind::kCpu));
  SyncOptions options = SyncOptionsOf(config.sync, config.run.seed);
  options.overlapped = false;  // the same arithmetic, and one fragment after the other
  options.fragments = 1;
  // Heavy tails, as those of momentum: the product of three uniform numbers.
  std::vector<float> signal(layout.parameter_count());
  Rng rng(1);
  for (float& value : signal) {
    value = static_cast<float>(1e-3 * (rng.Uniform() - 0.5) * rng.Uniform() * rng.Uniform());
  }
  const uint32_t worker_count = std::clamp(config.run.workers, 1u, kWorkersMax);
  std::vector<SampleWorker> workers(worker_count);
  for (SampleWorker& worker : workers) {
    worker.theta.resize(signal.size());
    worker.gradient = signal;
    LONGWAVE_ASSIGN_OR_RETURN(
        worker.pipeline,
        SyncPipeline::Create(options, &layout, ops, {.threads = threads},
                             {.theta = worker.theta.data(), .gradient = worker.gradient.data()}));
  }
  const std::vector<uint32_t> tiles = layout.TileSizes(0);
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout form, PayloadLayout::Create(config.sync.up, tiles));
  const MergeOptions merge_options = MergeOf(config);
  LONGWAVE_RETURN_IF_ERROR(Validate(merge_options));
  Merger merger(merge_options);
  std::vector<float> residual(KeepsResidual(merge_options) ? layout.coefficient_count() : 0);
  const auto elements = static_cast<double>(layout.coefficient_count()) * worker_count;
  PlanRates rates{.encode = 0, .decode = 0, .merge = 0};
  for (uint32_t round = 0; round < kRounds; ++round) {
    double encoding = 0, merging = 0, decoding = 0;
    std::vector<Buffer> payloads;
    for (uint32_t w = 0; w < worker_count; ++w) {
      SampleWorker& worker = workers[w];
      // Workers differ, and so do rounds.
      const size_t shift = 4099 * (w + worker_count * round);
      for (size_t i = 0; i < signal.size(); ++i) {
        worker.gradient[i] = signal[(i + shift) % signal.size()];
        worker.theta[i] -= worker.gradient[i];
      }
      LONGWAVE_RETURN_IF_ERROR(worker.pipeline->BeginFragment(round, 0, 1e-3));
      LONGWAVE_RETURN_IF_ERROR(Time(&encoding, [&]() -> absl::Status {
        LONGWAVE_ASSIGN_OR_RETURN(SyncPipeline::Push push, worker.pipeline->Encode(0));
        payloads.push_back(push.payload);
        return absl::OkStatus();
      }));
    }
    std::vector<Contribution> contributions;
    MergedSegment merged;
    LONGWAVE_RETURN_IF_ERROR(Time(&merging, [&]() -> absl::Status {
      for (const Buffer& payload : payloads) {
        (void)Crc32c(payload.bytes());
        LONGWAVE_RETURN_IF_ERROR(ValidatePayload(form, payload.bytes()));
        contributions.push_back({.layout = &form, .payload = payload.bytes()});
      }
      merged = merger.Merge(layout, 0, round, contributions, residual);
      return absl::OkStatus();
    }));
    const Buffer update(std::move(merged.payload));
    for (SampleWorker& worker : workers) {
      LONGWAVE_RETURN_IF_ERROR(Time(&decoding, [&]() -> absl::Status {
        LONGWAVE_RETURN_IF_ERROR(worker.pipeline->Apply(0, update));
        LONGWAVE_RETURN_IF_ERROR(worker.pipeline->EndFragment());
        return worker.pipeline->Hashes().status();
      }));
    }
    rates.encode = std::max(rates.encode, elements / encoding);
    rates.merge = std::max(rates.merge, elements / merging);
    rates.decode = std::max(rates.decode, elements / decoding);
  }
  return rates;
}

}  // namespace longwave
