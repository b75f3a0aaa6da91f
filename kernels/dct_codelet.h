#ifndef LONGWAVE_KERNELS_DCT_CODELET_H_
#define LONGWAVE_KERNELS_DCT_CODELET_H_

#include <cstdint>
#include <utility>

#include "kernels/dct_coefficients.h"

// The stages of dct_plan.h for lengths that are powers of two, as straight code over registers, for
// any kind of value: a vector of a CPU's lanes or one float of a GPU's thread. Every output is the
// table's expression, so that the bits are the same; tests/unit/kernels checks them.
//
// A is the arithmetic, of static functions on a type A::V:
//   V Add(V a, V b)    V Sub(V a, V b)    V Mul(float c, V a)    V Fma(float c, V a, V b)  c·a + b
// each rounded once. In sources that are compiled for each instruction set, A must have internal
// linkage, so that other sources do not share these templates' instances.

#ifdef __CUDACC__
#define LONGWAVE_CODELET __device__ __forceinline__
#define LONGWAVE_CODELET_BODY
#elif defined(__clang__)
// The undefined sanitizer's checks at each of the straight code's thousands of accesses take
// minutes to compile; the address sanitizer's checks stay.
#define LONGWAVE_CODELET_BODY __attribute__((always_inline, no_sanitize("undefined")))
#define LONGWAVE_CODELET LONGWAVE_CODELET_BODY inline
#else
#define LONGWAVE_CODELET_BODY __attribute__((always_inline))
#define LONGWAVE_CODELET LONGWAVE_CODELET_BODY inline
#endif

namespace longwave::dct {

template <uint32_t kIndex>
struct Index {
  static constexpr uint32_t value = kIndex;
};

template <class F, uint32_t... kIndices>
LONGWAVE_CODELET void UnrollOver(std::integer_sequence<uint32_t, kIndices...>, const F& f) {
  (f(Index<kIndices>{}), ...);
}

// f(Index<0>{}), …, f(Index<kCount − 1>{}).
template <uint32_t kCount, class F>
LONGWAVE_CODELET void Unroll(const F& f) {
  UnrollOver(std::make_integer_sequence<uint32_t, kCount>{}, f);
}

template <uint32_t kN, uint32_t kJ>
inline constexpr float kCosine = static_cast<float>(RotationCosine(kN, kJ));
template <uint32_t kN, uint32_t kJ>
inline constexpr float kSine = static_cast<float>(RotationSine(kN, kJ));
inline constexpr float kRoot = static_cast<float>(kRoot2);

template <class A, uint32_t kN>
struct Dct4;

// x[0 … kN) in place, kN a power of two. Forward: √kN times the DCT-II; Inverse: its transpose.
template <class A, uint32_t kN>
struct Dct2 {
  static constexpr uint32_t kHalf = kN / 2;
  using V = typename A::V;

  static LONGWAVE_CODELET void Forward(V* x) {
    V even[kHalf], odd[kHalf];
    Unroll<kHalf>([&](auto index) LONGWAVE_CODELET_BODY {
      constexpr uint32_t i = decltype(index)::value;
      even[i] = A::Add(x[i], x[kN - 1 - i]);
      odd[i] = A::Sub(x[i], x[kN - 1 - i]);
    });
    Dct2<A, kHalf>::Forward(even);
    Dct4<A, kHalf>::Forward(odd);
    Unroll<kHalf>([&](auto index) LONGWAVE_CODELET_BODY {
      constexpr uint32_t k = decltype(index)::value;
      x[2 * k] = even[k];
      x[2 * k + 1] = odd[k];
    });
  }

  static LONGWAVE_CODELET void Inverse(V* x) {
    V even[kHalf], odd[kHalf];
    Unroll<kHalf>([&](auto index) LONGWAVE_CODELET_BODY {
      constexpr uint32_t k = decltype(index)::value;
      even[k] = x[2 * k];
      odd[k] = x[2 * k + 1];
    });
    Dct2<A, kHalf>::Inverse(even);
    Dct4<A, kHalf>::Inverse(odd);
    Unroll<kHalf>([&](auto index) LONGWAVE_CODELET_BODY {
      constexpr uint32_t i = decltype(index)::value;
      x[i] = A::Add(even[i], odd[i]);
      x[kN - 1 - i] = A::Sub(even[i], odd[i]);
    });
  }
};

template <class A>
struct Dct2<A, 1> {
  static LONGWAVE_CODELET void Forward(typename A::V*) {}
  static LONGWAVE_CODELET void Inverse(typename A::V*) {}
};

// √kN times the DCT-IV, in place: rotations, two DCT-II of half the length, sums and differences.
template <class A, uint32_t kN>
struct Dct4 {
  static constexpr uint32_t kHalf = kN / 2;
  using V = typename A::V;

  static LONGWAVE_CODELET void Forward(V* x) {
    V u[kHalf], w[kHalf];
    Unroll<kHalf>([&](auto index) LONGWAVE_CODELET_BODY {
      constexpr uint32_t j = decltype(index)::value;
      constexpr float c = kCosine<kN, j>, s = kSine<kN, j>, sign = j % 2 == 0 ? 1.0f : -1.0f;
      u[j] = A::Fma(s, x[kN - 1 - j], A::Mul(c, x[j]));
      w[j] = A::Fma(-sign * c, x[kN - 1 - j], A::Mul(sign * s, x[j]));
    });
    Dct2<A, kHalf>::Forward(u);
    Dct2<A, kHalf>::Forward(w);
    if constexpr (kHalf == 1) {
      x[0] = u[0];
      x[1] = w[0];
    } else {
      x[0] = A::Mul(kRoot, u[0]);
      x[kN - 1] = A::Mul(kRoot, w[0]);
      Unroll<kHalf - 1>([&](auto index) LONGWAVE_CODELET_BODY {
        constexpr uint32_t k = decltype(index)::value + 1;
        x[2 * k] = A::Sub(u[k], w[kHalf - k]);
        x[2 * k - 1] = A::Add(u[k], w[kHalf - k]);
      });
    }
  }

  static LONGWAVE_CODELET void Inverse(V* x) {
    V u[kHalf], w[kHalf];
    if constexpr (kHalf == 1) {
      u[0] = x[0];
      w[0] = x[1];
    } else {
      u[0] = A::Mul(kRoot, x[0]);
      w[0] = A::Mul(kRoot, x[kN - 1]);
      Unroll<kHalf - 1>([&](auto index) LONGWAVE_CODELET_BODY {
        constexpr uint32_t k = decltype(index)::value + 1;
        u[k] = A::Add(x[2 * k - 1], x[2 * k]);
        w[kHalf - k] = A::Sub(x[2 * k - 1], x[2 * k]);
      });
    }
    Dct2<A, kHalf>::Inverse(u);
    Dct2<A, kHalf>::Inverse(w);
    Unroll<kHalf>([&](auto index) LONGWAVE_CODELET_BODY {
      constexpr uint32_t j = decltype(index)::value;
      constexpr float c = kCosine<kN, j>, s = kSine<kN, j>, sign = j % 2 == 0 ? 1.0f : -1.0f;
      x[j] = A::Fma(sign * s, w[j], A::Mul(c, u[j]));
      x[kN - 1 - j] = A::Fma(-sign * c, w[j], A::Mul(s, u[j]));
    });
  }
};

template <class A>
struct Dct4<A, 1> {
  static LONGWAVE_CODELET void Forward(typename A::V*) {}
  static LONGWAVE_CODELET void Inverse(typename A::V*) {}
};

}  // namespace longwave::dct

#endif  // LONGWAVE_KERNELS_DCT_CODELET_H_
