#ifndef LONGWAVE_TESTS_EMULATION_DEVICE_LANGUAGE_H_
#define LONGWAVE_TESTS_EMULATION_DEVICE_LANGUAGE_H_

#include <math.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda_runtime_api.h"
#include "tests/emulation/block.h"

// The built-in names of nvcc that our kernels use, global and with CUDA's meanings. __shared__ is
// missing on purpose: kernels/cuda/launch.cuh declares shared memory in a way that works here, too.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
  unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

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
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Reduce("__reduce_or_sync", mask, value, {file, line},
                                     [](unsigned a, unsigned b) { return a | b; });
}

#undef LONGWAVE_EMULATED_WHERE

// Atomic operations for the hardware's types. Each returns the previous value.

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
#define LONGWAVE_EMULATED_INTEGER_ATOMICS(Type)                        \
  LONGWAVE_EMULATED_ATOMIC(atomicMax, Type, old < value ? value : old) \
  LONGWAVE_EMULATED_ATOMIC(atomicOr, Type, old | value)
LONGWAVE_EMULATED_INTEGER_ATOMICS(int)
LONGWAVE_EMULATED_INTEGER_ATOMICS(unsigned)
LONGWAVE_EMULATED_INTEGER_ATOMICS(unsigned long long)
LONGWAVE_EMULATED_ATOMIC(atomicAdd, unsigned, old + value)
LONGWAVE_EMULATED_ATOMIC(atomicAdd, unsigned long long, old + value)
LONGWAVE_EMULATED_ATOMIC(atomicAdd, float, old + value)
LONGWAVE_EMULATED_ATOMIC(atomicAdd, double, old + value)
#undef LONGWAVE_EMULATED_INTEGER_ATOMICS
#undef LONGWAVE_EMULATED_ATOMIC
inline int atomicAdd(int* at, int value) {
  return longwave::emulation::Update(at, [value](int old) {
    return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value));
  });
}

// Bits.

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift & 31));
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }

// Arithmetic rounded once to the nearest; the sources are compiled without contraction.

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }

inline float __double2float_rn(double x) { return static_cast<float>(x); }

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
