#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/wire/tile_codec.h"
#include "kernels/check_args.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dct_plan.h"
#include "kernels/host_memory.h"

namespace longwave::cpu {
namespace {

static_assert(static_cast<int>(UpdateKind::kLocal) == static_cast<int>(UpdateRule::kLocal) &&
              static_cast<int>(UpdateKind::kInner) == static_cast<int>(UpdateRule::kInner) &&
              static_cast<int>(UpdateKind::kNesterov) == static_cast<int>(UpdateRule::kNesterov) &&
              static_cast<int>(UpdateKind::kSign) == static_cast<int>(UpdateRule::kSign));

// What one thread works in on one tile: about 90 KiB, so that it stays in the second-level cache.
struct Scratch {
  alignas(64) float x[kTileSizeMax];
  alignas(64) float y[kTileSizeMax];
  alignas(64) float values[kTileSizeMax];
  alignas(64) uint32_t codes[kTileSizeMax];
  alignas(64) uint16_t indices[kTileSizeMax];
};

TilePlace PlaceOf(const Tile& tile) {
  return {tile.offset, tile.row_stride, tile.rows, tile.cols, tile.rows_valid, tile.cols_valid};
}

TilePlans PlansOf(const Tile& tile, DctDirection direction) {
  return {DctPlan::Of(tile.rows, direction).view(), DctPlan::Of(tile.cols, direction).view(),
          DctNorm(tile.rows, tile.cols)};
}

// What is the same for all tiles of a call.
struct Context {
  const TileMath& math;
  const PayloadLayout& payload_layout;
  std::span<const Tile> tiles;
  uint32_t tile_begin;  // of the segment in the layout: selection draws by the layout's tile index
  uint64_t run_seed;
  uint32_t round;

  template <typename Args>
  Context(const TileMath& tile_math, const Args& args)
      : math(tile_math),
        payload_layout(*args.payload_layout),
        tiles(args.layout->tiles(args.layout->segments()[args.segment])),
        tile_begin(args.layout->segments()[args.segment].tile_begin),
        run_seed(args.run_seed),
        round(args.round) {}

  uint64_t Draw(uint32_t t) const { return SelectionDraw(run_seed, round, tile_begin + t); }
};

struct TileReport {
  double signal = 0;
  double momentum = 0;
  double sent = 0;
  bool finite = true;
};

TileReport EncodeTile(const Context& context, const EncodeArgs& args, uint32_t t) {
  Scratch scratch;
  const TileMath& math = context.math;
  const Tile& tile = context.tiles[t];
  const uint32_t size = tile.size();
  float* momentum = args.momentum + tile.coefficient_offset;
  TileReport report;

  math.gather(PlaceOf(tile), args.signal.a, args.signal.b, args.signal.type == ElementType::kBf16,
              args.signal.scale, scratch.x);
  report.signal = math.square_sum(size, scratch.x);
  if (args.transform == Transform::kDct) {
    math.forward(PlansOf(tile, DctDirection::kForward), scratch.x, scratch.y);
  }
  report.finite = math.add_momentum(size, args.beta, momentum, scratch.x);
  if (!report.finite) return report;
  report.momentum = math.square_sum(size, scratch.x);

  const uint32_t count = context.payload_layout.sent_count(t);
  const std::span<uint16_t> indices(scratch.indices, count);
  const std::span<float> values(scratch.values, count);
  const std::span<uint32_t> codes(scratch.codes, count);
  SelectIndices(context.payload_layout.format().selection, {scratch.x, size}, context.Draw(t),
                indices);
  for (uint32_t i = 0; i < count; ++i) values[i] = scratch.x[indices[i]];
  const uint16_t scale = QuantizeTile(context.payload_layout.format().codec, values, codes);
  report.sent = math.square_sum(count, scratch.values);
  WriteTile(context.payload_layout, t, indices, codes, scale, args.payload);
  for (uint32_t i = 0; i < count; ++i) {
    scratch.x[indices[i]] = FmaOnce(-args.alpha, values[i], scratch.x[indices[i]]);
  }
  std::copy_n(scratch.x, size, momentum);
  return report;
}

absl::Status Encode(const TileMath& math, const Exec& exec, const EncodeArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  const Context context(math, args);
  BeginPayload(*args.payload_layout, args.payload);
  std::vector<TileReport> reports(context.tiles.size());
  ParallelFor(static_cast<uint32_t>(reports.size()), exec.threads,
              [&](uint32_t t) { reports[t] = EncodeTile(context, args, t); });
  // Summed in the tiles' order, so that the number of threads changes no bit.
  EncodeReport total;
  for (uint32_t t = 0; t < reports.size(); ++t) {
    if (!reports[t].finite) {
      total.nonfinite_tile = std::min(total.nonfinite_tile, t);
      continue;
    }
    total.signal_square_sum += reports[t].signal;
    total.momentum_square_sum += reports[t].momentum;
    total.sent_square_sum += reports[t].sent;
  }
  *args.report = total;
  return absl::OkStatus();
}

absl::Status Finish(const Exec&, uint32_t) { return absl::OkStatus(); }

absl::Status Restore(const TileMath& math, const Exec& exec, const RestoreArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  const Context context(math, args);
  ParallelFor(static_cast<uint32_t>(context.tiles.size()), exec.threads, [&](uint32_t t) {
    Scratch scratch;
    const uint32_t count = context.payload_layout.sent_count(t);
    ReadTile(context.payload_layout, t, args.payload, context.Draw(t), {scratch.indices, count},
             {scratch.values, count});
    float* momentum = args.momentum + context.tiles[t].coefficient_offset;
    for (uint32_t i = 0; i < count; ++i) {
      float& m = momentum[scratch.indices[i]];
      m = FmaOnce(args.alpha, scratch.values[i], m);
    }
  });
  return absl::OkStatus();
}

void DecodeUpdateTile(const Context& context, const DecodeUpdateArgs& args, uint32_t t) {
  Scratch scratch;
  const Tile& tile = context.tiles[t];
  const uint32_t size = tile.size();
  const uint32_t count = context.payload_layout.sent_count(t);
  ReadTile(context.payload_layout, t, args.payload, context.Draw(t), {scratch.indices, count},
           {scratch.values, count});
  if (args.update == UpdateKind::kLocal) {
    float* momentum = args.momentum + tile.coefficient_offset;
    for (uint32_t i = 0; i < count; ++i) momentum[scratch.indices[i]] += scratch.values[i];
    std::copy_n(momentum, size, scratch.x);
  } else {
    std::fill_n(scratch.x, size, 0.0f);
    for (uint32_t i = 0; i < count; ++i) scratch.x[scratch.indices[i]] = scratch.values[i];
  }
  if (args.transform == Transform::kDct) {
    context.math.inverse(PlansOf(tile, DctDirection::kInverse), scratch.x, scratch.y);
  }
  const UpdateStep step = {static_cast<UpdateRule>(args.update),
                           args.eta,
                           args.mu,
                           args.keep,
                           args.beta,
                           args.signal.scale,
                           args.theta,
                           args.velocity,
                           args.gradient,
                           args.signal.a,
                           args.signal.b,
                           args.signal.type == ElementType::kBf16};
  context.math.update(PlaceOf(tile), step, scratch.x);
}

absl::Status DecodeUpdate(const TileMath& math, const Exec& exec, const DecodeUpdateArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  const Context context(math, args);
  ParallelFor(static_cast<uint32_t>(context.tiles.size()), exec.threads,
              [&](uint32_t t) { DecodeUpdateTile(context, args, t); });
  return absl::OkStatus();
}

absl::Status Hash(const TileMath& math, const Exec& exec, const HashArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  ParallelFor(static_cast<uint32_t>(args.hashes.size()), exec.threads, [&](uint32_t s) {
    uint64_t sum = 0;
    for (const Tile& tile : args.layout->tiles(args.layout->segments()[args.segment_begin + s])) {
      sum += math.hash(PlaceOf(tile), args.theta);
    }
    args.hashes[s] = sum;
  });
  return absl::OkStatus();
}

absl::Status Wait(const Exec&) { return absl::OkStatus(); }

template <Isa kIsa>
const KernelOps& Table() {
  static const KernelOps ops = {
      "cpu",
      [](const Exec& exec, const EncodeArgs& a) { return Encode(TileMathOf(kIsa), exec, a); },
      Finish,
      [](const Exec& exec, const RestoreArgs& a) { return Restore(TileMathOf(kIsa), exec, a); },
      [](const Exec& exec, const DecodeUpdateArgs& a) {
        return DecodeUpdate(TileMathOf(kIsa), exec, a);
      },
      [](const Exec& exec, const HashArgs& a) { return Hash(TileMathOf(kIsa), exec, a); },
      CopyHost,
      AllocateHost,
      ReleaseHost,
      Wait,
      [](const Exec& exec, const AdamWArgs& a) { return AdamW(OptimizerMathOf(kIsa), exec, a); },
      [](const Exec& exec, const SquareSumArgs& a) {
        return SquareSum(OptimizerMathOf(kIsa), exec, a);
      },
      [](const Exec& exec, const ScaleArgs& a) { return Scale(OptimizerMathOf(kIsa), exec, a); },
      ReadMachineMemory,
      false};
  return ops;
}

}  // namespace

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return "generic";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas = {Isa::kGeneric};
#ifdef LONGWAVE_CPU_X86
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return isas;
  isas.push_back(Isa::kAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    isas.push_back(Isa::kAvx512);
  }
#endif
  return isas;
}

const TileMath& TileMathOf(Isa isa) {
#ifdef LONGWAVE_CPU_X86
  if (isa == Isa::kAvx2) return kTileMathAvx2;
  if (isa == Isa::kAvx512) return kTileMathAvx512;
#endif
  LONGWAVE_CHECK(isa == Isa::kGeneric);
  return kTileMathGeneric;
}

const KernelOps& OpsOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return Table<Isa::kAvx2>();
    case Isa::kAvx512:
      return Table<Isa::kAvx512>();
    case Isa::kGeneric:
      break;
  }
  return Table<Isa::kGeneric>();
}

}  // namespace longwave::cpu
