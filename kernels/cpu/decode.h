#ifndef LONGWAVE_KERNELS_CPU_DECODE_H_
#define LONGWAVE_KERNELS_CPU_DECODE_H_

#include "kernels/cpu/dct.h"
#include "kernels/cpu/update.h"

// From a tile's values to its updated elements.

namespace longwave::cpu {
namespace {

// Coefficients of a 64 × 64 tile, side by side where something was sent: row frequencies without
// any are rows of +0 after the rows' transforms, and need none.
struct SentRows {
  uint32_t count;  // of row frequencies in work.x, up to a multiple of kLanes
  uint8_t rows[64 + kLanes];
};

inline void Zero(uint32_t n, float* x) {
  for (uint32_t i = 0; i < n; i += kLanes) Store(x + i, Broadcast(0));
}

inline SentRows ScatterSent64(float norm, uint32_t count, const uint16_t* indices,
                              const float* values, TileWork& work) {
  uint64_t sent = 0;
  for (uint32_t i = 0; i < count; ++i) sent |= uint64_t{1} << (indices[i] % 64);
  SentRows result;
  uint8_t place[64];
  uint32_t used = 0;
  for (uint64_t left = sent; left != 0; left &= left - 1) {
    const uint32_t row = TrailingZeros(left);
    place[row] = static_cast<uint8_t>(used);
    result.rows[used++] = static_cast<uint8_t>(row);
  }
  result.count = RoundUp(used, kLanes);
  // What fills the last group up are rows without any, whose result is +0 as well.
  uint64_t rest = ~sent;
  for (; used < result.count; ++used, rest &= rest - 1) {
    result.rows[used] = static_cast<uint8_t>(TrailingZeros(rest));
  }
  for (; rest != 0; rest &= rest - 1) Zero(64, work.y + TrailingZeros(rest) * 64);
  for (uint32_t j = 0; j < 64; ++j) Zero(result.count, work.x + j * 64);
  for (uint32_t i = 0; i < count; ++i) {
    work.x[indices[i] / 64 * 64 + place[indices[i] % 64]] = MulOnce(norm, values[i]);
  }
  return result;
}

// Without a transform, what was not sent is +0, which leaves θ as it is to the bit where the update
// adds −0 to it, or nothing: only what was sent is touched then.
inline bool ZerosLeaveTheta(const UpdateStep& step) {
  if (step.keep != 1.0f) return false;
  return step.rule == UpdateRule::kSign ||
         (step.rule == UpdateRule::kSgd && !__builtin_signbit(step.eta));
}

inline void UpdateSent(const TilePlace& place, const UpdateStep& step, uint32_t count,
                       const uint16_t* indices, const float* values) {
  const bool run = place.rows == 1;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t row = 0, col = indices[i];
    if (!run) {
      row = col / place.cols;
      col -= row * place.cols;
    }
    if (row >= place.rows_valid || col >= place.cols_valid) continue;
    float* theta = step.theta + place.offset + uint64_t{row} * place.row_stride + col;
    if (step.rule == UpdateRule::kSgd) {
      *theta = FmaOnce(-step.eta, values[i], *theta);
    } else {
      const float down = *theta - step.eta, up = *theta + step.eta;
      *theta = values[i] > 0 ? down : (values[i] < 0 ? up : *theta);
    }
  }
}

inline void Decode(const TilePlace& place, const TilePlace& next, const TilePlans* plans,
                   const UpdateStep& step, uint32_t count, const uint16_t* indices,
                   const float* values, TileWork& work) {
  const uint32_t n = SizeOf(place);
  if (plans == nullptr) {
    if (indices == nullptr) return Update(place, step, work.x);
    if (ZerosLeaveTheta(step)) return UpdateSent(place, step, count, indices, values);
    Zero(n, work.x);
    for (uint32_t i = 0; i < count; ++i) work.x[indices[i]] = values[i];
    return Update(place, step, work.x);
  }
  const float* target = step.rule == UpdateRule::kInner ? step.gradient : step.theta;
  const float* second = step.rule == UpdateRule::kNesterov ? step.velocity : nullptr;
  const Ahead ahead = AheadOf(next, target, second, work.x);
  if (indices != nullptr && IsShape(*plans, 64, 64)) {
    const SentRows sent = ScatterSent64(plans->norm, count, indices, values, work);
    InverseInPlace<64, 64>(sent.count, sent.rows, ahead, work.x, work.y);
    return Update(place, step, work.x);
  }
  if (indices == nullptr) {
    Scale(n, plans->norm, work.x);
  } else {
    Zero(n, work.x);
    for (uint32_t i = 0; i < count; ++i) work.x[indices[i]] = MulOnce(plans->norm, values[i]);
  }
  InverseOfScaled(*plans, ahead, work.x, work.y);
  Update(place, step, work.x);
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DECODE_H_
