#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "kernels/check_args.h"
#include "kernels/cpu/dense_ops.h"
#include "kernels/cpu/parallel.h"

namespace longwave::cpu {
namespace {

// The elements that a thread takes at a time: 64 chunks, a power of two, so that a piece's sum is a
// subtree of the whole sum. Smaller arrays are not worth a thread.
constexpr size_t kPieceChunks = 64;
constexpr size_t kPiece = kPieceChunks * kSquareSumChunk;

uint32_t PieceCount(uint64_t count) { return static_cast<uint32_t>((count + kPiece - 1) / kPiece); }

template <typename Body>
void ForPieces(uint64_t count, const Exec& exec, const Body& body) {
  ParallelFor(PieceCount(count), exec.threads, [&](uint32_t piece) {
    const size_t begin = piece * kPiece;
    body(piece, begin, std::min<size_t>(count, begin + kPiece));
  });
}

// Adds neighbours in pairs, pairs in pairs of these and so on; zeros pad the end.
double PairwiseSum(double* values, size_t count) {
  if (count == 0) return 0;
  for (; count > 1; count = (count + 1) / 2) {
    for (size_t i = 0; i < count / 2; ++i) values[i] = values[2 * i] + values[2 * i + 1];
    if (count % 2 == 1) values[count / 2] = values[count - 1];
  }
  return values[0];
}

}  // namespace

const OptimizerMath& OptimizerMathOf(Isa isa) {
#ifdef LONGWAVE_CPU_X86
  if (isa == Isa::kAvx2) return kOptimizerMathAvx2;
  if (isa == Isa::kAvx512) return kOptimizerMathAvx512;
#endif
  LONGWAVE_CHECK(isa == Isa::kGeneric);
  return kOptimizerMathGeneric;
}

absl::Status AdamW(const OptimizerMath& math, const Exec& exec, const AdamWArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  ForPieces(args.count, exec,
            [&](uint32_t, size_t begin, size_t end) { math.adamw(args, begin, end); });
  return absl::OkStatus();
}

absl::Status SquareSum(const OptimizerMath& math, const Exec& exec, const SquareSumArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  static thread_local std::vector<double> pieces;  // kept: no allocation in steady state
  pieces.resize(PieceCount(args.count));
  double* const sums = pieces.data();
  ForPieces(args.count, exec, [&](uint32_t piece, size_t begin, size_t end) {
    double chunks[kPieceChunks];
    size_t chunk = 0;
    for (size_t i = begin; i < end; i += kSquareSumChunk) {
      chunks[chunk++] = math.square_sum(args.x + i, std::min<size_t>(kSquareSumChunk, end - i));
    }
    sums[piece] = PairwiseSum(chunks, chunk);
  });
  *args.sum = PairwiseSum(sums, pieces.size());
  return absl::OkStatus();
}

absl::Status Scale(const OptimizerMath& math, const Exec& exec, const ScaleArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  ForPieces(args.count, exec,
            [&](uint32_t, size_t begin, size_t end) { math.scale(args, begin, end); });
  return absl::OkStatus();
}

absl::Status Blend(const OptimizerMath& math, const Exec& exec, const BlendArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  ForPieces(args.end - args.begin, exec, [&](uint32_t, size_t begin, size_t end) {
    math.blend(args, args.begin + begin, args.begin + end);
  });
  return absl::OkStatus();
}

}  // namespace longwave::cpu
