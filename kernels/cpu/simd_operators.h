#ifndef LONGWAVE_KERNELS_CPU_SIMD_OPERATORS_H_
#define LONGWAVE_KERNELS_CPU_SIMD_OPERATORS_H_

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/dct_codelet.h"

#define LONGWAVE_SIMD LONGWAVE_CODELET

// The vectors of simd.h, and the primitives that the compilers' own operators on vectors give for
// every instruction set.
namespace longwave::cpu {
namespace {

#if defined(__AVX512F__)
constexpr uint32_t kLanes = 16;
using V = __m512;
using VI = __m512i;
using VD = __m512d;
using VL = __m512i;
#elif defined(__AVX2__)
constexpr uint32_t kLanes = 8;
using V = __m256;
using VI = __m256i;
using VD = __m256d;
using VL = __m256i;
#else
constexpr uint32_t kLanes = 4;
typedef float V __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));
typedef double VD __attribute__((vector_size(16)));
typedef uint64_t VL __attribute__((vector_size(16)));
#endif

// The intrinsics' types have lanes of 64 bits for all integers.
typedef int32_t SignedLanes __attribute__((vector_size(4 * kLanes)));
typedef uint32_t UnsignedLanes __attribute__((vector_size(4 * kLanes)));
typedef uint64_t WideLanes __attribute__((vector_size(4 * kLanes)));
typedef V StoredV __attribute__((aligned(4), may_alias));
typedef VI StoredI __attribute__((aligned(4), may_alias));
typedef VL StoredL __attribute__((aligned(8), may_alias));

LONGWAVE_SIMD V Load(const float* from) { return *reinterpret_cast<const StoredV*>(from); }
LONGWAVE_SIMD void Store(float* to, V v) { *reinterpret_cast<StoredV*>(to) = v; }
LONGWAVE_SIMD V Add(V a, V b) { return a + b; }
LONGWAVE_SIMD V Sub(V a, V b) { return a - b; }
LONGWAVE_SIMD V Mul(V a, V b) { return a * b; }

LONGWAVE_SIMD VD ZeroD() { return VD{}; }
LONGWAVE_SIMD VD AddD(VD a, VD b) { return a + b; }
LONGWAVE_SIMD VD MulD(VD a, VD b) { return a * b; }
LONGWAVE_SIMD VD DivD(VD a, VD b) { return a / b; }

LONGWAVE_SIMD VI LoadI(const uint32_t* from) { return *reinterpret_cast<const StoredI*>(from); }
LONGWAVE_SIMD void StoreI(uint32_t* to, VI v) { *reinterpret_cast<StoredI*>(to) = v; }
LONGWAVE_SIMD V AsFloat(VI v) { return reinterpret_cast<V>(v); }
LONGWAVE_SIMD VI AsInt(V v) { return reinterpret_cast<VI>(v); }
LONGWAVE_SIMD V ToFloat(VI v) {
  return __builtin_convertvector(reinterpret_cast<SignedLanes>(v), V);
}
LONGWAVE_SIMD UnsignedLanes LanesOf(VI v) { return reinterpret_cast<UnsignedLanes>(v); }
LONGWAVE_SIMD VI OfLanes(UnsignedLanes v) { return reinterpret_cast<VI>(v); }
LONGWAVE_SIMD VI AddI(VI a, VI b) { return OfLanes(LanesOf(a) + LanesOf(b)); }
LONGWAVE_SIMD VI SubI(VI a, VI b) { return OfLanes(LanesOf(a) - LanesOf(b)); }
LONGWAVE_SIMD VI AndI(VI a, VI b) { return a & b; }
LONGWAVE_SIMD VI OrI(VI a, VI b) { return a | b; }
LONGWAVE_SIMD VI XorI(VI a, VI b) { return a ^ b; }
template <int kBits>
LONGWAVE_SIMD VI ShiftRightI(VI v) {
  return OfLanes(LanesOf(v) >> kBits);
}
template <int kBits>
LONGWAVE_SIMD VI ShiftLeftI(VI v) {
  return OfLanes(LanesOf(v) << kBits);
}
LONGWAVE_SIMD VI Magnitude(V v) { return OfLanes(LanesOf(AsInt(v)) & 0x7fffffffu); }

LONGWAVE_SIMD VL LoadL(const uint64_t* from) { return *reinterpret_cast<const StoredL*>(from); }
LONGWAVE_SIMD void StoreL(uint64_t* to, VL v) { *reinterpret_cast<StoredL*>(to) = v; }
LONGWAVE_SIMD VL AddL(VL a, VL b) {
  return reinterpret_cast<VL>(reinterpret_cast<WideLanes>(a) + reinterpret_cast<WideLanes>(b));
}
LONGWAVE_SIMD VL MulL(VL a, VL b) {
  return reinterpret_cast<VL>(reinterpret_cast<WideLanes>(a) * reinterpret_cast<WideLanes>(b));
}

LONGWAVE_SIMD void Prefetch(const void* at) { __builtin_prefetch(at, 0, 2); }
// 64 for zero.
LONGWAVE_SIMD uint32_t TrailingZeros(uint64_t word) {
  return word == 0 ? 64 : static_cast<uint32_t>(__builtin_ctzll(word));
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_SIMD_OPERATORS_H_
