#include "tests/support/reference/ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/wire/tile_codec.h"
#include "kernels/check_args.h"
#include "kernels/host_memory.h"
#include "tests/support/reference/dct.h"
#include "tests/support/reference/optimizer.h"
#include "tests/support/reference/tile_codec.h"

namespace longwave::ref {
namespace {

uint64_t FlatIndex(const Tile& tile, uint32_t row, uint32_t col) {
  return tile.offset + uint64_t{row} * tile.row_stride + col;
}

double SignalAt(const Signal& signal, uint64_t i) {
  const double a = signal.a[i];
  return signal.scale * (signal.b == nullptr ? a : a - double{signal.b[i]});
}

std::span<const Tile> TilesOf(const Layout& layout, uint32_t segment) {
  return layout.tiles(layout.segments()[segment]);
}

template <typename Args>
uint64_t DrawOf(const Args& args, uint32_t t) {
  return SelectionDraw(args.run_seed, args.round,
                       args.layout->segments()[args.segment].tile_begin + t);
}

double SquareSum(const std::vector<double>& x) {
  return std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
}

std::vector<uint16_t> Select(const PayloadFormat& format, const std::vector<double>& x,
                             uint32_t count, uint64_t draw) {
  const uint32_t n = static_cast<uint32_t>(x.size());
  std::vector<uint16_t> indices(n);
  std::iota(indices.begin(), indices.end(), uint16_t{0});
  switch (format.selection) {
    case Selection::kAll:
      break;
    case Selection::kTopK:
      std::stable_sort(indices.begin(), indices.end(),
                       [&x](uint16_t i, uint16_t j) { return std::abs(x[i]) > std::abs(x[j]); });
      indices.resize(count);
      std::sort(indices.begin(), indices.end());
      break;
    case Selection::kRandom:
      indices.resize(count);
      SelectRandom(n, draw, indices);
      break;
    case Selection::kStride:
      indices.resize(count);
      SelectStride(n, draw, indices);
      break;
  }
  return indices;
}

// A tile's coefficients as the payload's receiver reads them.
struct Sent {
  std::vector<uint16_t> indices;
  std::vector<float> values;
};

template <typename Args>
Sent Read(const Args& args, uint32_t t) {
  Sent sent;
  sent.indices.resize(args.payload_layout->sent_count(t));
  sent.values.resize(sent.indices.size());
  ReadTile(*args.payload_layout, t, args.payload, DrawOf(args, t), sent.indices, sent.values);
  return sent;
}

absl::Status EncodeSegment(const EncodeArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  BeginPayload(*args.payload_layout, args.payload);
  EncodeReport report;
  const auto tiles = TilesOf(*args.layout, args.segment);
  for (uint32_t t = 0; t < tiles.size(); ++t) {
    const Tile& tile = tiles[t];
    float* momentum = args.momentum + tile.coefficient_offset;
    std::vector<double> signal(tile.size(), 0.0);
    for (uint32_t r = 0; r < tile.rows_valid; ++r) {
      for (uint32_t c = 0; c < tile.cols_valid; ++c) {
        signal[r * tile.cols + c] = SignalAt(args.signal, FlatIndex(tile, r, c));
      }
    }
    std::vector<double> m =
        args.transform == Transform::kDct ? Dct(signal, tile.rows, tile.cols) : signal;
    for (uint32_t i = 0; i < m.size(); ++i) m[i] += double{args.beta} * momentum[i];

    const bool finite = std::all_of(m.begin(), m.end(),
                                    [](double v) { return std::isfinite(static_cast<float>(v)); });
    if (!finite) {
      report.nonfinite_tile = std::min(report.nonfinite_tile, t);
      continue;
    }
    const std::vector<uint16_t> indices = Select(
        args.payload_layout->format(), m, args.payload_layout->sent_count(t), DrawOf(args, t));
    std::vector<float> values;
    values.reserve(indices.size());
    for (const uint16_t i : indices) values.push_back(static_cast<float>(m[i]));
    std::vector<uint32_t> codes(values.size());
    const uint16_t scale = QuantizeTile(args.payload_layout->format().codec, values, codes);
    const std::vector<double> sent(values.begin(), values.end());
    WriteTile(*args.payload_layout, t, indices, codes, scale, args.payload);
    report.signal_square_sum += SquareSum(signal);
    report.momentum_square_sum += SquareSum(m);
    report.sent_square_sum += SquareSum(sent);
    for (size_t i = 0; i < indices.size(); ++i) m[indices[i]] -= double{args.alpha} * sent[i];
    for (uint32_t i = 0; i < m.size(); ++i) momentum[i] = static_cast<float>(m[i]);
  }
  *args.report = report;
  return absl::OkStatus();
}

absl::Status Encode(const Exec&, std::span<const EncodeArgs> all) {
  for (const EncodeArgs& args : all) LONGWAVE_RETURN_IF_ERROR(EncodeSegment(args));
  return absl::OkStatus();
}

absl::Status Finish(const Exec&, uint32_t) { return absl::OkStatus(); }

absl::Status Restore(const Exec&, const RestoreArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  const auto tiles = TilesOf(*args.layout, args.segment);
  for (uint32_t t = 0; t < tiles.size(); ++t) {
    const Sent sent = Read(args, t);
    for (size_t i = 0; i < sent.indices.size(); ++i) {
      float& m = args.momentum[tiles[t].coefficient_offset + sent.indices[i]];
      m = static_cast<float>(m + double{args.alpha} * sent.values[i]);
    }
  }
  return absl::OkStatus();
}

void UpdateElement(const DecodeUpdateArgs& args, uint64_t i, double u) {
  if (args.update == UpdateKind::kInner) {
    args.gradient[i] = static_cast<float>(u);
    return;
  }
  const double eta = args.eta, mu = args.mu;
  double theta = double{args.theta[i]} * args.keep;
  switch (args.update) {
    case UpdateKind::kSgd:
      theta -= eta * u;
      break;
    case UpdateKind::kSign:
      theta -= eta * ((u > 0) - (u < 0));
      break;
    case UpdateKind::kNesterov: {
      const double v = mu * args.velocity[i] + u;
      args.velocity[i] = static_cast<float>(v);
      theta -= eta * (u + mu * v);
      break;
    }
    case UpdateKind::kLocal:
      theta -= eta * (SignalAt(args.signal, i) + args.beta * u);
      break;
    case UpdateKind::kInner:
      break;
  }
  args.theta[i] = static_cast<float>(theta);
}

absl::Status DecodeSegment(const DecodeUpdateArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  const auto tiles = TilesOf(*args.layout, args.segment);
  for (uint32_t t = 0; t < tiles.size(); ++t) {
    const Tile& tile = tiles[t];
    const Sent sent = Read(args, t);
    std::vector<double> u(tile.size(), 0.0);
    if (args.update == UpdateKind::kLocal) {
      float* momentum = args.momentum + tile.coefficient_offset;
      for (size_t i = 0; i < sent.indices.size(); ++i) momentum[sent.indices[i]] += sent.values[i];
      u.assign(momentum, momentum + tile.size());
    } else {
      for (size_t i = 0; i < sent.indices.size(); ++i) u[sent.indices[i]] = sent.values[i];
    }
    if (args.transform == Transform::kDct) u = InverseDct(u, tile.rows, tile.cols);
    for (uint32_t r = 0; r < tile.rows_valid; ++r) {
      for (uint32_t c = 0; c < tile.cols_valid; ++c) {
        UpdateElement(args, FlatIndex(tile, r, c), u[r * tile.cols + c]);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeUpdate(const Exec&, std::span<const DecodeUpdateArgs> all) {
  for (const DecodeUpdateArgs& args : all) LONGWAVE_RETURN_IF_ERROR(DecodeSegment(args));
  return absl::OkStatus();
}

absl::Status Hash(const Exec&, const HashArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  for (uint32_t s = 0; s < args.hashes.size(); ++s) {
    uint64_t sum = 0;
    for (const Tile& tile : TilesOf(*args.layout, args.segment_begin + s)) {
      for (uint32_t r = 0; r < tile.rows_valid; ++r) {
        for (uint32_t c = 0; c < tile.cols_valid; ++c) {
          const uint64_t i = FlatIndex(tile, r, c);
          sum += Mix64(Mix64(i) + std::bit_cast<uint32_t>(args.theta[i]));
        }
      }
    }
    args.hashes[s] = sum;
  }
  return absl::OkStatus();
}

absl::Status Wait(const Exec&) { return absl::OkStatus(); }

}  // namespace

const KernelOps& Ops() {
  static const KernelOps ops = {
      "reference", Encode,       Finish,      Restore,      DecodeUpdate,      Hash,
      CopyHost,    AllocateHost, ReleaseHost, AllocateHost, ReleaseHost,       Wait,
      AdamW,       SquareSum,    Scale,       Blend,        ReadMachineMemory, false};
  return ops;
}

}  // namespace longwave::ref
