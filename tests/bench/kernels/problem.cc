#include "tests/bench/kernels/problem.h"

#include <algorithm>
#include <thread>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/wire/tile_codec.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/support/reference/tile_codec.h"

namespace longwave::bench {
namespace {

// Results are compared bit for bit up to so many parameters.
constexpr uint64_t kParamsHashed = uint64_t{1} << 24;

// Segments of one call, as the worker's pipeline has them.
constexpr size_t kBatchSegments = 16;
constexpr uint32_t kBatchTiles = 4096;

int AllThreads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// The sum of two uniform numbers gives magnitudes worth choosing among.
void FillRandom(std::vector<float>& x, uint64_t seed, double magnitude) {
  const size_t parts = static_cast<size_t>(AllThreads());
  std::vector<std::jthread> threads;
  for (size_t p = 0; p < parts; ++p) {
    threads.emplace_back(
        [&x, seed, magnitude, begin = x.size() * p / parts, end = x.size() * (p + 1) / parts] {
          for (size_t i = begin; i < end; ++i) {
            Rng rng(seed, i);
            x[i] = static_cast<float>(magnitude * (rng.Uniform() + rng.Uniform() - 1));
          }
        });
  }
}

}  // namespace

std::string Name(Shape shape) {
  switch (shape) {
    case Shape::kFlat:
      return "none";
    case Shape::kMatrix:
      return "dct";
    case Shape::kRuns:
      return "dct-run";
  }
  return "unknown";
}

absl::StatusOr<std::unique_ptr<Problem>> Problem::Create(uint64_t params, uint32_t segment_tiles) {
  const uint64_t period = std::min(params, kPeriod);
  LONGWAVE_CHECK(params >= kParamsUnit && params % kParamsUnit == 0 && params % period == 0);
  std::unique_ptr<Problem> problem(new Problem());
  problem->params_ = params;
  const int64_t count = static_cast<int64_t>(params);
  const int64_t columns = static_cast<int64_t>(kMatrixColumns);
  Manifest matrix, vector;
  matrix.tensors = {{"matrix", {count / columns, columns}}};
  vector.tensors = {{"vector", {count}}};
  LayoutOptions options;
  options.segment_tiles = segment_tiles;
  for (const Shape shape : {Shape::kFlat, Shape::kMatrix, Shape::kRuns}) {
    options.tiling = shape == Shape::kFlat ? Tiling::kFlat : Tiling::kModel;
    LONGWAVE_ASSIGN_OR_RETURN(Layout layout,
                              Layout::Create(shape == Shape::kMatrix ? matrix : vector, options));
    LONGWAVE_CHECK(layout.coefficient_count() == params);
    problem->layouts_.push_back(std::move(layout));
  }
  for (auto [array, seed] : {std::pair{&problem->a_, 1}, std::pair{&problem->b_, 2},
                             std::pair{&problem->momentum_, 3}, std::pair{&problem->theta_, 4}}) {
    array->resize(period);
    FillRandom(*array, static_cast<uint64_t>(seed), seed == 3 ? 3.0 : 1.0);
  }
  return problem;
}

absl::StatusOr<Payloads> Problem::MakePayloads(const Setting& setting, const KernelOps& ops) const {
  const Layout& of_shape = layout(setting.shape);
  Payloads payloads;
  size_t size = 0;
  for (uint32_t s = 0; s < of_shape.segments().size(); ++s) {
    LONGWAVE_ASSIGN_OR_RETURN(PayloadLayout of_segment,
                              PayloadLayout::Create(setting.format(), of_shape.TileSizes(s)));
    payloads.total_bytes += of_segment.bytes();
    size = AlignedForPayload(size + of_segment.bytes());
    payloads.layouts.push_back(std::move(of_segment));
  }
  LONGWAVE_ASSIGN_OR_RETURN(payloads.memory, HostBytes::Create(&ops, size));
  size_t begin = 0;
  for (const PayloadLayout& of_segment : payloads.layouts) {
    payloads.bytes.push_back(payloads.memory->bytes().subspan(begin, of_segment.bytes()));
    begin = AlignedForPayload(begin + of_segment.bytes());
  }
  return payloads;
}

absl::StatusOr<const Payloads*> Problem::Encoded(const Setting& setting) {
  auto [place, is_new] = encoded_.try_emplace(setting);
  if (!is_new) return &place->second;
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(BackendKind::kCpu));
  LONGWAVE_ASSIGN_OR_RETURN(place->second, MakePayloads(setting, *ops));
  std::vector<float> momentum = momentum_;
  std::vector<EncodeReport> reports;
  Payloads& payloads = place->second;
  const uint32_t repeats = SegmentsBefore(setting.shape, period());
  LONGWAVE_RETURN_IF_ERROR(EncodeSegments(
      *ops, {.threads = AllThreads()}, layout(setting.shape), TransformOf(setting.shape),
      {.a = a_.data(), .momentum = momentum.data()}, payloads, reports, 0, repeats));
  for (size_t s = repeats; s < payloads.bytes.size(); ++s) {
    std::ranges::copy(payloads.bytes[s - repeats], payloads.bytes[s].begin());
  }
  return &payloads;
}

uint32_t Problem::SegmentsBefore(Shape shape, uint64_t coefficient) const {
  const std::span<const Segment> segments = layout(shape).segments();
  const auto end = std::ranges::find_if(segments, [coefficient](const Segment& segment) {
    return segment.coefficient_begin >= coefficient;
  });
  return static_cast<uint32_t>(end - segments.begin());
}

uint32_t Problem::hashed_segments(Shape shape) const {
  return SegmentsBefore(shape, kParamsHashed);
}

absl::StatusOr<std::vector<float>> Problem::UpdatedArray(const Setting& setting,
                                                         UpdateKind update) {
  LONGWAVE_ASSIGN_OR_RETURN(const Payloads* payloads, Encoded(setting));
  std::vector<float> theta(theta_), velocity(period()), gradient(period());
  const Arrays arrays = {
      .theta = theta.data(), .velocity = velocity.data(), .gradient = gradient.data()};
  LONGWAVE_RETURN_IF_ERROR(DecodeSegments(cpu::OpsOf(Isa::kGeneric), {.threads = AllThreads()},
                                          layout(setting.shape), TransformOf(setting.shape), update,
                                          arrays, *payloads, 0, hashed_segments(setting.shape)));
  return update == UpdateKind::kInner ? gradient : theta;
}

absl::StatusOr<const std::vector<uint64_t>*> Problem::Updated(const Setting& setting,
                                                              UpdateKind update) {
  auto [place, is_new] = updated_.try_emplace({setting, update});
  if (!is_new) return &place->second;
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> array, UpdatedArray(setting, update));
  place->second.resize(hashed_segments(setting.shape));
  LONGWAVE_RETURN_IF_ERROR(cpu::OpsOf(Isa::kGeneric)
                               .hash({.threads = AllThreads()}, {.layout = &layout(setting.shape),
                                                                 .theta = array.data(),
                                                                 .hashes = place->second}));
  return &place->second;
}

absl::Status EncodeSegments(const KernelOps& ops, const Exec& exec, const Layout& layout,
                            Transform transform, const Arrays& arrays, Payloads& payloads,
                            std::vector<EncodeReport>& reports, uint32_t begin, uint32_t end) {
  reports.resize(layout.segments().size());
  std::vector<EncodeArgs> batch;
  const auto finish = [&](uint32_t first, uint32_t last) -> absl::Status {
    for (uint32_t s = first; s < last; ++s) LONGWAVE_RETURN_IF_ERROR(ops.finish(exec, s));
    return absl::OkStatus();
  };
  for (uint32_t s = begin, before = begin; s < end;) {
    const uint32_t first = s;
    batch.clear();
    for (uint32_t tiles = 0; s < end && batch.size() < kBatchSegments && tiles < kBatchTiles; ++s) {
      tiles += layout.segments()[s].tile_count;
      batch.push_back({.layout = &layout,
                       .segment = s,
                       .signal = {.a = arrays.a, .b = arrays.b},
                       .transform = transform,
                       .beta = kBeta,
                       .alpha = kAlpha,
                       .momentum = arrays.momentum,
                       .payload_layout = &payloads.layouts[s],
                       .payload = payloads.bytes[s],
                       .report = &reports[s]});
    }
    LONGWAVE_RETURN_IF_ERROR(ops.encode(exec, batch));
    LONGWAVE_RETURN_IF_ERROR(finish(before, first));
    before = first;
    if (s == end) LONGWAVE_RETURN_IF_ERROR(finish(first, end));
  }
  return ops.wait(exec);
}

absl::Status DecodeSegments(const KernelOps& ops, const Exec& exec, const Layout& layout,
                            Transform transform, UpdateKind update, const Arrays& arrays,
                            const Payloads& payloads, uint32_t begin, uint32_t end) {
  std::vector<DecodeUpdateArgs> batch;
  for (uint32_t s = begin; s < end;) {
    batch.clear();
    for (; s < end && batch.size() < kBatchSegments; ++s) {
      batch.push_back({.layout = &layout,
                       .segment = s,
                       .transform = transform,
                       .update = update,
                       .eta = kEta,
                       .mu = kMu,
                       .payload_layout = &payloads.layouts[s],
                       .payload = payloads.bytes[s],
                       .theta = arrays.theta,
                       .velocity = arrays.velocity,
                       .gradient = arrays.gradient});
    }
    LONGWAVE_RETURN_IF_ERROR(ops.decode_update(exec, batch));
  }
  return ops.wait(exec);
}

}  // namespace longwave::bench
