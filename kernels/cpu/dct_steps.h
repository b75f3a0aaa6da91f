#ifndef LONGWAVE_KERNELS_CPU_DCT_STEPS_H_
#define LONGWAVE_KERNELS_CPU_DCT_STEPS_H_

#include "kernels/cpu/simd.h"

// Transforms of kLanes vectors side by side, in an order for a processor's registers:
// dct_codelet.h's stages, bit for bit. Lengths above 16 are cut into transforms of 16, which fit 32
// registers, and the other values wait in memory. As straight code, the whole would spill so much
// that it takes 1.5 times as long.
//
// load(Index<i>) gives element i; store(Index<i>, V) takes it; pause(Index<p>) for p = 0 … 3 is
// called in between, so that the caller can interleave other work. All loads may follow stores.

namespace longwave::cpu {
namespace {

using dct::Index;
using dct::kCosine;
using dct::kRoot;
using dct::kSine;
using dct::Unroll;

#define LONGWAVE_BODY LONGWAVE_CODELET_BODY

// Memory for kSize vectors that wait.
template <uint32_t kSize>
struct Waiting {
  alignas(64) float at[kSize * kLanes];
  LONGWAVE_SIMD void Set(uint32_t i, V v) { Store(at + i * kLanes, v); }
  LONGWAVE_SIMD V Get(uint32_t i) const { return Load(at + i * kLanes); }
};

struct NoPause {
  template <class P>
  LONGWAVE_SIMD void operator()(P) const {}
};

struct NoMiddle {
  LONGWAVE_SIMD void operator()() const {}
};

template <uint32_t kN>
struct Steps4;

// The stages of dct::Dct2.
template <uint32_t kN>
struct Steps2 {
  static constexpr uint32_t kHalf = kN / 2, kQuarter = kN / 4;

  template <class From, class To, class Pause = NoPause>
  static LONGWAVE_SIMD void Forward(const From& load, const To& store, const Pause& pause = {}) {
    if constexpr (kN <= 16) {
      V x[kN];
      Unroll<kN>([&](auto i) LONGWAVE_BODY { x[i.value] = load(i); });
      dct::Dct2<Lanes, kN>::Forward(x);
      Unroll<kN>([&](auto i) LONGWAVE_BODY { store(i, x[i.value]); });
    } else {
      // Two levels of butterflies at once: four elements give one of each quarter.
      Waiting<kHalf> odd;
      Waiting<kQuarter> even_even, even_odd;
      V first[kQuarter];
      Unroll<kQuarter>([&](auto index) LONGWAVE_BODY {
        constexpr uint32_t i = decltype(index)::value;
        const V a = load(index), b = load(Index<kN - 1 - i>{});
        const V c = load(Index<kHalf - 1 - i>{}), d = load(Index<kHalf + i>{});
        const V outer = Add(a, b), inner = Add(c, d);
        odd.Set(i, Sub(a, b));
        odd.Set(kHalf - 1 - i, Sub(c, d));
        even_odd.Set(i, Sub(outer, inner));
        if constexpr (kQuarter <= 16) {
          first[i] = Add(outer, inner);
        } else {
          even_even.Set(i, Add(outer, inner));
        }
      });
      if constexpr (kQuarter <= 16) {
        dct::Dct2<Lanes, kQuarter>::Forward(first);
        Unroll<kQuarter>([&](auto i)
                             LONGWAVE_BODY { store(Index<4 * i.value>{}, first[i.value]); });
      } else {
        Reload();
        Steps2<kQuarter>::Forward([&](auto i) LONGWAVE_BODY { return even_even.Get(i.value); },
                                  [&](auto i, V v)
                                      LONGWAVE_BODY { store(Index<4 * i.value>{}, v); });
      }
      Reload();
      pause(Index<0>{});
      Steps4<kQuarter>::Forward([&](auto i) LONGWAVE_BODY { return even_odd.Get(i.value); },
                                [&](auto i, V v)
                                    LONGWAVE_BODY { store(Index<4 * i.value + 2>{}, v); });
      Reload();
      pause(Index<1>{});
      Steps4<kHalf>::Forward([&](auto i) LONGWAVE_BODY { return odd.Get(i.value); },
                             [&](auto i, V v) LONGWAVE_BODY { store(Index<2 * i.value + 1>{}, v); },
                             [&]() LONGWAVE_BODY { pause(Index<2>{}); });
      pause(Index<3>{});
    }
  }

  template <class From, class To, class Pause = NoPause>
  static LONGWAVE_SIMD void Inverse(const From& load, const To& store, const Pause& pause = {}) {
    if constexpr (kN <= 16) {
      V x[kN];
      Unroll<kN>([&](auto i) LONGWAVE_BODY { x[i.value] = load(i); });
      dct::Dct2<Lanes, kN>::Inverse(x);
      Unroll<kN>([&](auto i) LONGWAVE_BODY { store(i, x[i.value]); });
    } else {
      Waiting<kHalf> odd;
      Waiting<kQuarter> even_even, even_odd;
      Steps4<kHalf>::Inverse([&](auto i) LONGWAVE_BODY { return load(Index<2 * i.value + 1>{}); },
                             [&](auto i, V v) LONGWAVE_BODY { odd.Set(i.value, v); },
                             [&]() LONGWAVE_BODY { pause(Index<0>{}); });
      Reload();
      pause(Index<1>{});
      Steps4<kQuarter>::Inverse([&](auto i)
                                    LONGWAVE_BODY { return load(Index<4 * i.value + 2>{}); },
                                [&](auto i, V v) LONGWAVE_BODY { even_odd.Set(i.value, v); });
      Reload();
      pause(Index<2>{});
      V last[kQuarter];
      if constexpr (kQuarter <= 16) {
        Unroll<kQuarter>([&](auto i) LONGWAVE_BODY { last[i.value] = load(Index<4 * i.value>{}); });
        dct::Dct2<Lanes, kQuarter>::Inverse(last);
      } else {
        Steps2<kQuarter>::Inverse([&](auto i) LONGWAVE_BODY { return load(Index<4 * i.value>{}); },
                                  [&](auto i, V v) LONGWAVE_BODY { even_even.Set(i.value, v); });
        Reload();
      }
      Unroll<kQuarter>([&](auto index) LONGWAVE_BODY {
        constexpr uint32_t i = decltype(index)::value;
        V e;
        if constexpr (kQuarter <= 16) {
          e = last[i];
        } else {
          e = even_even.Get(i);
        }
        const V o = even_odd.Get(i);
        const V outer = Add(e, o), inner = Sub(e, o);
        const V p = odd.Get(i), q = odd.Get(kHalf - 1 - i);
        store(index, Add(outer, p));
        store(Index<kN - 1 - i>{}, Sub(outer, p));
        store(Index<kHalf - 1 - i>{}, Add(inner, q));
        store(Index<kHalf + i>{}, Sub(inner, q));
      });
      pause(Index<3>{});
    }
  }
};

// The stages of dct::Dct4.
template <uint32_t kN>
struct Steps4 {
  static constexpr uint32_t kHalf = kN / 2;

  template <class From, class To, class Pause = NoMiddle>
  static LONGWAVE_SIMD void Forward(const From& load, const To& store, const Pause& middle = {}) {
    if constexpr (kN <= 16) {
      V x[kN];
      Unroll<kN>([&](auto i) LONGWAVE_BODY { x[i.value] = load(i); });
      dct::Dct4<Lanes, kN>::Forward(x);
      Unroll<kN>([&](auto i) LONGWAVE_BODY { store(i, x[i.value]); });
      middle();
    } else {
      Waiting<kHalf> u, w;
      Steps2<kHalf>::Forward(
          [&](auto index) LONGWAVE_BODY {
            constexpr uint32_t j = decltype(index)::value;
            constexpr float c = kCosine<kN, j>, s = kSine<kN, j>;
            return Lanes::Fma(s, load(Index<kN - 1 - j>{}), Lanes::Mul(c, load(index)));
          },
          [&](auto i, V v) LONGWAVE_BODY { u.Set(i.value, v); });
      Reload();
      middle();
      const auto rotated = [&](auto index) LONGWAVE_BODY {
        constexpr uint32_t j = decltype(index)::value;
        constexpr float c = kCosine<kN, j>, s = kSine<kN, j>, sign = j % 2 == 0 ? 1.0f : -1.0f;
        return Lanes::Fma(-sign * c, load(Index<kN - 1 - j>{}), Lanes::Mul(sign * s, load(index)));
      };
      const auto combine = [&](auto index, V v) LONGWAVE_BODY {
        constexpr uint32_t i = decltype(index)::value;
        if constexpr (i == 0) {
          store(Index<0>{}, Lanes::Mul(kRoot, u.Get(0)));
          store(Index<kN - 1>{}, Lanes::Mul(kRoot, v));
        } else {
          constexpr uint32_t k = kHalf - i;
          store(Index<2 * k>{}, Sub(u.Get(k), v));
          store(Index<2 * k - 1>{}, Add(u.Get(k), v));
        }
      };
      if constexpr (kHalf <= 16) {
        Steps2<kHalf>::Forward(rotated, combine);
      } else {
        Steps2<kHalf>::Forward(rotated, [&](auto i, V v) LONGWAVE_BODY { w.Set(i.value, v); });
        Reload();
        Unroll<kHalf>([&](auto i) LONGWAVE_BODY { combine(i, w.Get(i.value)); });
      }
    }
  }

  template <class From, class To, class Pause = NoMiddle>
  static LONGWAVE_SIMD void Inverse(const From& load, const To& store, const Pause& middle = {}) {
    if constexpr (kN <= 16) {
      V x[kN];
      Unroll<kN>([&](auto i) LONGWAVE_BODY { x[i.value] = load(i); });
      dct::Dct4<Lanes, kN>::Inverse(x);
      Unroll<kN>([&](auto i) LONGWAVE_BODY { store(i, x[i.value]); });
      middle();
    } else {
      Waiting<kHalf> u;
      Steps2<kHalf>::Inverse(
          [&](auto index) LONGWAVE_BODY {
            constexpr uint32_t k = decltype(index)::value;
            if constexpr (k == 0) {
              return Lanes::Mul(kRoot, load(Index<0>{}));
            } else {
              return Add(load(Index<2 * k - 1>{}), load(Index<2 * k>{}));
            }
          },
          [&](auto i, V v) LONGWAVE_BODY { u.Set(i.value, v); });
      Reload();
      middle();
      Steps2<kHalf>::Inverse(
          [&](auto index) LONGWAVE_BODY {
            constexpr uint32_t k = kHalf - decltype(index)::value;
            if constexpr (k == kHalf) {
              return Lanes::Mul(kRoot, load(Index<kN - 1>{}));
            } else {
              return Sub(load(Index<2 * k - 1>{}), load(Index<2 * k>{}));
            }
          },
          [&](auto index, V v) LONGWAVE_BODY {
            constexpr uint32_t j = decltype(index)::value;
            constexpr float c = kCosine<kN, j>, s = kSine<kN, j>, sign = j % 2 == 0 ? 1.0f : -1.0f;
            store(Index<j>{}, Lanes::Fma(sign * s, v, Lanes::Mul(c, u.Get(j))));
            store(Index<kN - 1 - j>{}, Lanes::Fma(-sign * c, v, Lanes::Mul(s, u.Get(j))));
          });
    }
  }
};

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DCT_STEPS_H_
