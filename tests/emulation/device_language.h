#ifndef LONGWAVE_TESTS_EMULATION_DEVICE_LANGUAGE_H_
#define LONGWAVE_TESTS_EMULATION_DEVICE_LANGUAGE_H_

#include <math.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

// A vector: one access of its width, so that its alignment matters.

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// The barrier. The last two parameters, here and below, are where the call stands.

#define LONGWAVE_EMULATED_WHERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(LONGWAVE_EMULATED_WHERE) { longwave::emulation::Barrier({file, line}); }

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

// The value of the lane, or the caller's own where the warp has no such lane.
template <typename T>
T Shuffle(const char* operation, unsigned mask, T value, int64_t from, Where where) {
  const WarpValues& values = Exchange(operation, mask, Bits(value), where);
  return from >= 0 && from < 32 ? FromBits<T>(values.of[from]) : value;
}

template <typename Combine>
unsigned Reduce(const char* operation, unsigned mask, unsigned value, Where where,
                Combine combine) {
  const WarpValues& values = Exchange(operation, mask, value, where);
  unsigned rest = mask;
  auto result = static_cast<unsigned>(values.of[std::countr_zero(rest)]);
  for (rest &= rest - 1; rest != 0; rest &= rest - 1) {
    result = combine(result, static_cast<unsigned>(values.of[std::countr_zero(rest)]));
  }
  return result;
}

}  // namespace longwave::emulation

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, LONGWAVE_EMULATED_WHERE) {
  const int64_t lane = longwave::emulation::Lane();
  return longwave::emulation::Shuffle("__shfl_up_sync", mask, value, lane - delta, {file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, LONGWAVE_EMULATED_WHERE) {
  const int64_t lane = longwave::emulation::Lane();
  return longwave::emulation::Shuffle("__shfl_down_sync", mask, value, lane + delta, {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, LONGWAVE_EMULATED_WHERE) {
  const int64_t lane = longwave::emulation::Lane();
  return longwave::emulation::Shuffle("__shfl_xor_sync", mask, value, lane ^ bits, {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, LONGWAVE_EMULATED_WHERE) {
  const longwave::emulation::WarpValues& values =
      longwave::emulation::Exchange("__ballot_sync", mask, predicate != 0, {file, line});
  unsigned result = 0;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    result |= static_cast<unsigned>(values.of[lane]) << lane;
  }
  return result;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Reduce("__reduce_add_sync", mask, value, {file, line},
                                     [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, LONGWAVE_EMULATED_WHERE) {
  return longwave::emulation::Reduce("__reduce_max_sync", mask, value, {file, line},
                                     [](unsigned a, unsigned b) { return a < b ? b : a; });
}

#undef LONGWAVE_EMULATED_WHERE

// Atomic operations for the hardware's types. Each returns the previous value.

inline unsigned atomicOr(unsigned* at, unsigned value) {
  return std::atomic_ref(*at).fetch_or(value, std::memory_order_relaxed);
}
inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long value) {
  return std::atomic_ref(*at).fetch_add(value, std::memory_order_relaxed);
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

template <std::integral A, std::integral B>
std::common_type_t<A, B> min(A a, B b) {
  return std::min<std::common_type_t<A, B>>(a, b);
}
template <std::integral A, std::integral B>
std::common_type_t<A, B> max(A a, B b) {
  return std::max<std::common_type_t<A, B>>(a, b);
}

#endif  // LONGWAVE_TESTS_EMULATION_DEVICE_LANGUAGE_H_
