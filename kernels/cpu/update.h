#ifndef LONGWAVE_KERNELS_CPU_UPDATE_H_
#define LONGWAVE_KERNELS_CPU_UPDATE_H_

#include "kernels/cpu/signal.h"
#include "kernels/cpu/tile_math.h"

// The update rules of ops.h, on whole or partial vectors of elements.

namespace longwave::cpu {
namespace {

struct WholeVectors {
  static LONGWAVE_SIMD V Get(const float* from, uint32_t) { return Load(from); }
  static LONGWAVE_SIMD void Put(float* to, V v, uint32_t) { Store(to, v); }
  template <class Source>
  static LONGWAVE_SIMD V SignalAt(const Source& elements, uint64_t at, uint32_t) {
    return elements.At(at);
  }
};

struct PartVectors {
  static LONGWAVE_SIMD V Get(const float* from, uint32_t count) { return LoadPart(from, count); }
  static LONGWAVE_SIMD void Put(float* to, V v, uint32_t count) { StorePart(to, v, count); }
  template <class Source>
  static LONGWAVE_SIMD V SignalAt(const Source& elements, uint64_t at, uint32_t count) {
    return elements.PartAt(at, count);
  }
};

// kDecay: θ ← θ·keep comes first.
template <UpdateRule kRule, bool kDecay>
struct Rule {
  const UpdateStep& step;
  V minus_eta, eta, mu, keep;

  explicit Rule(const UpdateStep& s)
      : step(s),
        minus_eta(Broadcast(-s.eta)),
        eta(Broadcast(s.eta)),
        mu(Broadcast(s.mu)),
        keep(Broadcast(s.keep)) {}

  // Updates the `count` elements from flat index `at` on.
  template <class Width>
  LONGWAVE_SIMD void Apply(uint64_t at, V u, uint32_t count) const {
    if constexpr (kRule == UpdateRule::kInner) {
      Width::Put(step.gradient + at, u, count);
      return;
    }
    V theta = Width::Get(step.theta + at, count);
    if constexpr (kDecay) theta = Mul(theta, keep);
    if constexpr (kRule == UpdateRule::kSgd) {
      theta = Fma(minus_eta, u, theta);
    } else if constexpr (kRule == UpdateRule::kSign) {
      const V zero = Broadcast(0);
      const V down = Sub(theta, eta), up = Add(theta, eta);
      theta = WhereAbove(u, zero, down, WhereAbove(zero, u, up, theta));
    } else if constexpr (kRule == UpdateRule::kNesterov) {
      const V v = Fma(mu, Width::Get(step.velocity + at, count), u);
      Width::Put(step.velocity + at, v, count);
      theta = Fma(minus_eta, Fma(mu, v, u), theta);
    }
    Width::Put(step.theta + at, theta, count);
  }
};

// Calls f(Rule) with the step's rule, which is not kLocal.
template <class F>
LONGWAVE_SIMD void WithRule(const UpdateStep& step, const F& f) {
  const bool decay = step.keep != 1.0f;
  switch (step.rule) {
    case UpdateRule::kSgd:
      return decay ? f(Rule<UpdateRule::kSgd, true>(step)) : f(Rule<UpdateRule::kSgd, false>(step));
    case UpdateRule::kSign:
      return decay ? f(Rule<UpdateRule::kSign, true>(step))
                   : f(Rule<UpdateRule::kSign, false>(step));
    case UpdateRule::kNesterov:
      return decay ? f(Rule<UpdateRule::kNesterov, true>(step))
                   : f(Rule<UpdateRule::kNesterov, false>(step));
    default:
      return f(Rule<UpdateRule::kInner, false>(step));
  }
}

// Calls f(Width, flat index, index in the tile, count) over the tile's valid elements.
template <class F>
LONGWAVE_SIMD void ForValid(const TilePlace& place, const F& f) {
  for (uint32_t r = 0; r < place.rows_valid; ++r) {
    const uint64_t at = place.offset + uint64_t{r} * place.row_stride;
    const uint32_t in_tile = r * place.cols;
    uint32_t c = 0;
    for (; c + kLanes <= place.cols_valid; c += kLanes) {
      f(WholeVectors{}, at + c, in_tile + c, kLanes);
    }
    if (c < place.cols_valid) f(PartVectors{}, at + c, in_tile + c, place.cols_valid - c);
  }
}

// Updates the tile's valid elements from u[rows, cols], which has room for whole vectors.
inline void Update(const TilePlace& place, const UpdateStep& step, const float* u) {
  if (step.rule != UpdateRule::kLocal) {
    return WithRule(step, [&](const auto& rule) {
      ForValid(place, [&](auto width, uint64_t at, uint32_t i, uint32_t count) LONGWAVE_BODY {
        rule.template Apply<decltype(width)>(at, Load(u + i), count);
      });
    });
  }
  const V minus_eta = Broadcast(-step.eta), beta = Broadcast(step.beta);
  const V keep = Broadcast(step.keep);
  const bool decay = step.keep != 1.0f;
  WithElements(step.signal, 0, [&](const auto& elements) {
    ForValid(place, [&](auto width, uint64_t at, uint32_t i, uint32_t count) LONGWAVE_BODY {
      using Width = decltype(width);
      V theta = Width::Get(step.theta + at, count);
      // The signal may be theta itself, so it is read before theta is written.
      const V s = Width::SignalAt(elements, at, count);
      if (decay) theta = Mul(theta, keep);
      Width::Put(step.theta + at, Fma(minus_eta, Fma(beta, Load(u + i), s), theta), count);
    });
  });
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_UPDATE_H_
