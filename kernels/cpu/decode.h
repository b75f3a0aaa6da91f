#ifndef LONGWAVE_KERNELS_CPU_DECODE_H_
#define LONGWAVE_KERNELS_CPU_DECODE_H_

#include "kernels/cpu/dct.h"
#include "kernels/cpu/update.h"

// Decodes a tile's values and updates its elements.

namespace longwave::cpu {
namespace {

inline void Zero(uint32_t n, float* x) {
  for (uint32_t i = 0; i < n; i += kLanes) Store(x + i, Broadcast(0));
}

// Without a transform, a coefficient that was not sent is +0. If the update then leaves θ as it is
// to the bit, only sent coefficients are touched.
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

// The inverse by sums (dct_plan.h) of a tile of 64 × 64, and the update with it. A row has its
// halves side by side, even before odd.
constexpr uint32_t kHalfRow = 32;

inline void SumRows(const TilePlans& plans, const Ahead& ahead, uint32_t count,
                    const uint16_t* indices, const float* values, uint32_t* places, float* rows) {
  // The offsets of each coefficient's half row and of its basis row, 16 bits each, computed in
  // vectors.
  for (uint32_t s = 0; s < count; ++s) {
    const uint32_t i = indices[s] % 64, j = indices[s] / 64;
    places[s] = (i * 64 + j % 2 * kHalfRow) | (j * kHalfRow) << 16;
  }
  for (uint32_t i = 0; i < 64; ++i) {
    ahead.Fetch(2 * i);
    ahead.Fetch(2 * i + 1);
    Zero(64, rows + i * 64);
  }
  const V norm = Broadcast(plans.norm);
  for (uint32_t s = 0; s < count; ++s) {
    const V value = Mul(norm, Broadcast(values[s]));
    float* const row = rows + (places[s] & 0xffff);
    const float* const cosines = plans.basis + (places[s] >> 16);
    Unroll<kHalfRow / kLanes>([&](auto g) LONGWAVE_BODY {
      float* const to = row + g.value * kLanes;
      Store(to, Fma(value, Load(cosines + g.value * kLanes), Load(to)));
    });
  }
}

// The valid lanes from column c on.
LONGWAVE_SIMD uint32_t LanesValid(const TilePlace& place, uint32_t c) {
  if (place.cols_valid <= c) return 0;
  return place.cols_valid - c < kLanes ? place.cols_valid - c : kLanes;
}

template <class Rule>
LONGWAVE_SIMD void UpdateHalves(const TilePlace& place, const Rule& rule, const float* halves) {
  for (uint32_t r = 0; r < place.rows_valid; ++r, halves += 64) {
    const uint64_t at = place.offset + uint64_t{r} * place.row_stride;
    Unroll<kHalfRow / kLanes>([&](auto g) LONGWAVE_BODY {
      constexpr uint32_t left = g.value * kLanes, right = 64 - kLanes - left;
      const V even = Load(halves + left), odd = Load(halves + kHalfRow + left);
      const V u_left = Add(even, odd), u_right = Reverse(Sub(even, odd));
      if (place.cols_valid == 64) {
        rule.template Apply<WholeVectors>(at + left, u_left, kLanes);
        rule.template Apply<WholeVectors>(at + right, u_right, kLanes);
      } else {
        rule.template Apply<PartVectors>(at + left, u_left, LanesValid(place, left));
        rule.template Apply<PartVectors>(at + right, u_right, LanesValid(place, right));
      }
    });
  }
}

inline void DecodeBySums(const TilePlace& place, const TilePlans& plans, const Ahead& ahead,
                         const UpdateStep& step, uint32_t count, const uint16_t* indices,
                         const float* values, TileWork& work) {
  SumRows(plans, ahead, count, indices, values, work.candidates, work.y);
  InverseColumns<64, 64>(work.y, ahead, work.x);
  WithRule(step, [&](const auto& rule) { UpdateHalves(place, rule, work.x); });
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
  if (plans->basis != nullptr) {
    return DecodeBySums(place, *plans, ahead, step, count, indices, values, work);
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
