#ifndef LONGWAVE_KERNELS_CPU_ROTATIONS_H_
#define LONGWAVE_KERNELS_CPU_ROTATIONS_H_

#include <cstdint>

namespace longwave::cpu {

// The constants of the rotations of DCT-IV of one length n (dct_coefficients.h), n / 2 each:
//   u[j] = fma(sine[j], x[n − 1 − j], cosine[j] · x[j])
//   w[j] = fma(minus_cosine[j], x[n − 1 − j], plus_sine[j] · x[j])     signs alternating with j
struct Rotations {
  const float* cosine = nullptr;
  const float* sine = nullptr;
  const float* minus_cosine = nullptr;
  const float* plus_sine = nullptr;
};

inline constexpr uint32_t kRotationLengths = 13;  // 2^0 … 2^12

// By the length's logarithm, from 2^5 on; computed at the first call.
const Rotations* AllRotations();

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_ROTATIONS_H_
