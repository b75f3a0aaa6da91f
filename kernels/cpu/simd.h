#ifndef LONGWAVE_KERNELS_CPU_SIMD_H_
#define LONGWAVE_KERNELS_CPU_SIMD_H_

#include <cstdint>

// Vectors of the instruction set that a source is compiled for: kLanes floats (V), as many 32-bit
// integers (VI), half as many doubles (VD) and 64-bit integers (VL). All definitions here and in
// the headers that use them have internal linkage, and none comes from the standard library: the
// linker could keep this copy's instructions for an inline function that other sources share.
#if defined(__AVX512F__)
#include "kernels/cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "kernels/cpu/simd_avx2.h"
#else
#include "kernels/cpu/simd_generic.h"
#endif

namespace longwave::cpu {
namespace {

// The arithmetic of dct_codelet.h over kLanes transforms side by side.
struct Lanes {
  using V = cpu::V;
  static LONGWAVE_SIMD V Add(V a, V b) { return cpu::Add(a, b); }
  static LONGWAVE_SIMD V Sub(V a, V b) { return cpu::Sub(a, b); }
  static LONGWAVE_SIMD V Mul(float c, V a) { return cpu::Mul(Broadcast(c), a); }
  static LONGWAVE_SIMD V Fma(float c, V a, V b) { return cpu::Fma(Broadcast(c), a, b); }
};

// Makes the compiler reload stored values instead of keeping them in registers; keeping them would
// spill more than was stored.
LONGWAVE_SIMD void Reload() { __asm__ volatile("" ::: "memory"); }

// Elements of the largest tile, as in codec.h, which these sources may not include.
constexpr uint32_t kTileSizeMax = 4096;

constexpr uint32_t RoundUp(uint32_t n, uint32_t step) { return (n + step - 1) / step * step; }

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_SIMD_H_
