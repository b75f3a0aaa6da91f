#ifndef LONGWAVE_TESTS_EMULATION_DEVICE_LANGUAGE_H_
#define LONGWAVE_TESTS_EMULATION_DEVICE_LANGUAGE_H_

#include <math.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cuda_runtime_api.h"
#include "tests/emulation/block.h"

// What nvcc has built in, as far as our kernels use it. Names and meanings are CUDA's; they are
// global, as there. __shared__ is missing on purpose: kernels/cuda/launch.cuh declares shared
// memory in a way that works here too.

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
  unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

// Vectors: one access of their width each, so that their alignment matters.

#define LONGWAVE_EMULATED_VECTORS(Type, name, bytes2, bytes4)      \
  struct alignas(bytes2) name##2 {                                 \
    Type x, y;                                                     \
  };                                                               \
  struct alignas(bytes4) name##4 {                                 \
    Type x, y, z, w;                                               \
  };                                                               \
  inline name##2 make_##name##2(Type x, Type y) { return {x, y}; } \
  inline name##4 make_##name##4(Type x, Type y, Type z, Type w) { return {x, y, z, w}; }
LONGWAVE_EMULATED_VECTORS(unsigned char, uchar, 2, 4)
LONGWAVE_EMULATED_VECTORS(short, short, 4, 8)
LONGWAVE_EMULATED_VECTORS(unsigned short, ushort, 4, 8)
LONGWAVE_EMULATED_VECTORS(int, int, 8, 16)
LONGWAVE_EMULATED_VECTORS(unsigned, uint, 8, 16)
LONGWAVE_EMULATED_VECTORS(float, float, 8, 16)
LONGWAVE_EMULATED_VECTORS(long long, longlong, 16, 16)
LONGWAVE_EMULATED_VECTORS(unsigned long long, ulonglong, 16, 16)
LONGWAVE_EMULATED_VECTORS(double, double, 16, 16)
#undef LONGWAVE_EMULATED_VECTORS

// Barriers. The last two parameters are where the call stands.

#define LONGWAVE_EMULATED_WHERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(LONGWAVE_EMULATED_WHERE) {
  longwave::emulation::Barrier(longwave::emulation::Vote::kNone, false, {file, line});
}
inline int __syncthreads_count(int predicate, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Barrier(longwave::emulation::Vote::kCount, predicate != 0,
                                      {file, line});
}
inline int __syncthreads_and(int predicate, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Barrier(longwave::emulation::Vote::kAnd, predicate != 0,
                                      {file, line});
}
inline int __syncthreads_or(int predicate, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Barrier(longwave::emulation::Vote::kOr, predicate != 0, {file, line});
}
inline void __syncwarp(unsigned mask = ~0u, LONGWAVE_EMULATED_WHERE) {
  longwave::emulation::Exchange("__syncwarp", mask, 0, {file, line});
}

// Each thread sees what others wrote as soon as it is written.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// Within a warp.

namespace longwave::emulation {

template <typename T>
uint64_t Bits(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The value of the lane, or the caller's own where the lane is outside of its group of `width`.
template <typename T>
T Shuffle(const char* operation, unsigned mask, T value, int64_t from, bool inside, Where where) {
  const WarpValues& values = Exchange(operation, mask, Bits(value), where);
  return inside ? FromBits<T>(values.of[from & 31]) : value;
}

template <typename T, typename Combine>
T Reduce(const char* operation, unsigned mask, T value, Where where, Combine combine) {
  const WarpValues& values = Exchange(operation, mask, Bits(value), where);
  unsigned rest = mask;
  T result = FromBits<T>(values.of[std::countr_zero(rest)]);
  for (rest &= rest - 1; rest != 0; rest &= rest - 1) {
    result = combine(result, FromBits<T>(values.of[std::countr_zero(rest)]));
  }
  return result;
}

inline unsigned Ballot(const char* operation, unsigned mask, bool predicate, Where where) {
  const WarpValues& values = Exchange(operation, mask, predicate, where);
  unsigned result = 0;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    result |= static_cast<unsigned>(values.of[lane]) << lane;
  }
  return result;
}

}  // namespace longwave::emulation

template <typename T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, LONGWAVE_EMULATED_WHERE) {
  const int begin = static_cast<int>(longwave::emulation::Lane()) & -width;
  return longwave::emulation::Shuffle("__shfl_sync", mask, value, begin + (from & (width - 1)),
                                      true, {file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, LONGWAVE_EMULATED_WHERE) {
  const int64_t lane = longwave::emulation::Lane(), from = lane - delta;
  return longwave::emulation::Shuffle("__shfl_up_sync", mask, value, from, from >= (lane & -width),
                                      {file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   LONGWAVE_EMULATED_WHERE) {
  const int64_t lane = longwave::emulation::Lane(), from = lane + delta;
  return longwave::emulation::Shuffle("__shfl_down_sync", mask, value, from,
                                      from < (lane & -width) + width, {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, LONGWAVE_EMULATED_WHERE) {
  const int64_t lane = longwave::emulation::Lane(), from = lane ^ bits;
  return longwave::emulation::Shuffle("__shfl_xor_sync", mask, value, from,
                                      from < (lane & -width) + width, {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Ballot("__ballot_sync", mask, predicate != 0, {file, line});
}
inline int __any_sync(unsigned mask, int predicate, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Ballot("__any_sync", mask, predicate != 0, {file, line}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Ballot("__all_sync", mask, predicate != 0, {file, line}) == mask;
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T value, LONGWAVE_EMULATED_WHERE) {
  const uint64_t bits = longwave::emulation::Bits(value);
  const longwave::emulation::WarpValues& values =
      longwave::emulation::Exchange("__match_any_sync", mask, bits, {file, line});
  unsigned result = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0 && values.of[lane] == bits) result |= 1u << lane;
  }
  return result;
}

template <typename T>
T __reduce_add_sync(unsigned mask, T value, LONGWAVE_EMULATED_WHERE) {
  static_assert(sizeof(T) == 4);
  // Sums wrap, for both kinds of integer.
  return static_cast<T>(longwave::emulation::Reduce("__reduce_add_sync", mask,
                                                    static_cast<unsigned>(value), {file, line},
                                                    [](unsigned a, unsigned b) { return a + b; }));
}
template <typename T>
T __reduce_min_sync(unsigned mask, T value, LONGWAVE_EMULATED_WHERE) {
  static_assert(sizeof(T) == 4);
  return longwave::emulation::Reduce("__reduce_min_sync", mask, value, {file, line},
                                     [](T a, T b) { return b < a ? b : a; });
}
template <typename T>
T __reduce_max_sync(unsigned mask, T value, LONGWAVE_EMULATED_WHERE) {
  static_assert(sizeof(T) == 4);
  return longwave::emulation::Reduce("__reduce_max_sync", mask, value, {file, line},
                                     [](T a, T b) { return a < b ? b : a; });
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Reduce("__reduce_and_sync", mask, value, {file, line},
                                     [](unsigned a, unsigned b) { return a & b; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Reduce("__reduce_or_sync", mask, value, {file, line},
                                     [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Reduce("__reduce_xor_sync", mask, value, {file, line},
                                     [](unsigned a, unsigned b) { return a ^ b; });
}

#undef LONGWAVE_EMULATED_WHERE

// Atomic operations: those of the types that the hardware has. Each returns what was there.

namespace longwave::emulation {

template <typename T, typename Next>
T Update(T* at, Next next) {
  std::atomic_ref<T> word(*at);
  T old = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, next(old), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace longwave::emulation

#define LONGWAVE_EMULATED_ATOMIC(name, Type, expression)                  \
  inline Type name(Type* at, Type value) {                                \
    return longwave::emulation::Update(                                   \
        at, [value](Type old) { return static_cast<Type>(expression); }); \
  }
#define LONGWAVE_EMULATED_INTEGER_ATOMICS(Type)                                                    \
  LONGWAVE_EMULATED_ATOMIC(atomicMin, Type, value < old ? value : old)                             \
  LONGWAVE_EMULATED_ATOMIC(atomicMax, Type, old < value ? value : old)                             \
  LONGWAVE_EMULATED_ATOMIC(atomicAnd, Type, old& value)                                            \
  LONGWAVE_EMULATED_ATOMIC(atomicOr, Type, old | value)                                            \
  LONGWAVE_EMULATED_ATOMIC(atomicXor, Type, old ^ value)                                           \
  LONGWAVE_EMULATED_ATOMIC(atomicExch, Type, (static_cast<void>(old), value))                      \
  inline Type atomicCAS(Type* at, Type wanted, Type value) {                                       \
    return longwave::emulation::Update(at, [=](Type old) { return old == wanted ? value : old; }); \
  }
LONGWAVE_EMULATED_INTEGER_ATOMICS(int)
LONGWAVE_EMULATED_INTEGER_ATOMICS(unsigned)
LONGWAVE_EMULATED_INTEGER_ATOMICS(unsigned long long)
LONGWAVE_EMULATED_ATOMIC(atomicAdd, unsigned, old + value)
LONGWAVE_EMULATED_ATOMIC(atomicAdd, unsigned long long, old + value)
LONGWAVE_EMULATED_ATOMIC(atomicAdd, float, old + value)
LONGWAVE_EMULATED_ATOMIC(atomicAdd, double, old + value)
LONGWAVE_EMULATED_ATOMIC(atomicExch, float, (static_cast<void>(old), value))
LONGWAVE_EMULATED_ATOMIC(atomicSub, unsigned, old - value)
#undef LONGWAVE_EMULATED_INTEGER_ATOMICS
#undef LONGWAVE_EMULATED_ATOMIC
inline int atomicAdd(int* at, int value) {
  return longwave::emulation::Update(at, [value](int old) {
    return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value));
  });
}
inline int atomicSub(int* at, int value) {
  return longwave::emulation::Update(at, [value](int old) {
    return static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value));
  });
}

// Bits.

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1u) << (31 - i);
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 15;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (nibble & 7)) & 255);
    if ((nibble & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

// Arithmetic rounded once to the nearest; the sources are compiled without contraction.

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }

// Conversions saturate, and give zero for a NaN of 32 bits.

namespace longwave::emulation {

template <typename To>
To Saturated(double x) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(x)) return 0;
  if (x <= static_cast<double>(Limits::min())) return Limits::min();
  if (x >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<To>(x);
}

}  // namespace longwave::emulation

inline int __float2int_rn(float x) { return longwave::emulation::Saturated<int>(nearbyint(x)); }
inline int __float2int_rz(float x) { return longwave::emulation::Saturated<int>(x); }
inline int __float2int_rd(float x) { return longwave::emulation::Saturated<int>(floor(x)); }
inline int __float2int_ru(float x) { return longwave::emulation::Saturated<int>(ceil(x)); }
inline unsigned __float2uint_rn(float x) {
  return longwave::emulation::Saturated<unsigned>(nearbyint(x));
}
inline unsigned __float2uint_rz(float x) { return longwave::emulation::Saturated<unsigned>(x); }
inline int __double2int_rn(double x) { return longwave::emulation::Saturated<int>(nearbyint(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

// Loads and stores that say how memory's caches shall take them.

template <typename T>
T __ldg(const T* from) {
  return *from;
}
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
template <typename T>
T __ldcg(const T* from) {
  return *from;
}
template <typename T>
T __ldlu(const T* from) {
  return *from;
}
template <typename T>
void __stcs(T* to, T value) {
  *to = value;
}
template <typename T>
void __stcg(T* to, T value) {
  *to = value;
}

[[noreturn]] inline void __trap() { longwave::emulation::Refuse("__trap"); }

// The global min and max: the usual arithmetic conversions between integers, as nvcc has them.

#define LONGWAVE_EMULATED_MIN_MAX(A, B, Result)                                      \
  inline Result min(A a, B b) {                                                      \
    return static_cast<Result>(b) < static_cast<Result>(a) ? static_cast<Result>(b)  \
                                                           : static_cast<Result>(a); \
  }                                                                                  \
  inline Result max(A a, B b) {                                                      \
    return static_cast<Result>(a) < static_cast<Result>(b) ? static_cast<Result>(b)  \
                                                           : static_cast<Result>(a); \
  }
LONGWAVE_EMULATED_MIN_MAX(int, int, int)
LONGWAVE_EMULATED_MIN_MAX(int, unsigned, unsigned)
LONGWAVE_EMULATED_MIN_MAX(unsigned, int, unsigned)
LONGWAVE_EMULATED_MIN_MAX(unsigned, unsigned, unsigned)
LONGWAVE_EMULATED_MIN_MAX(long, long, long)
LONGWAVE_EMULATED_MIN_MAX(unsigned long, unsigned long, unsigned long)
LONGWAVE_EMULATED_MIN_MAX(long long, long long, long long)
LONGWAVE_EMULATED_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
#undef LONGWAVE_EMULATED_MIN_MAX

#endif  // LONGWAVE_TESTS_EMULATION_DEVICE_LANGUAGE_H_
