#ifndef LONGWAVE_KERNELS_DCT_COEFFICIENTS_H_
#define LONGWAVE_KERNELS_DCT_COEFFICIENTS_H_

#include <cstdint>
#include <numbers>

#include "common/base/trigonometry.h"

namespace longwave {

// The constants of the cosine transform's stages. The tables (dct_plan.h) and the straight code
// (dct_codelet.h) use them both, and are therefore equal to the bit.

inline constexpr double kRoot2 = std::numbers::sqrt2;

// The rotation j of a DCT-IV of even length n. Length 2 has no later stage for its factor of √2.
constexpr double RotationCosine(uint32_t n, uint32_t j) {
  return (n == 2 ? kRoot2 : 1.0) * CosPi(uint64_t{2} * j + 1, uint64_t{4} * n);
}
constexpr double RotationSine(uint32_t n, uint32_t j) {
  return (n == 2 ? kRoot2 : 1.0) * SinPi(uint64_t{2} * j + 1, uint64_t{4} * n);
}

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_DCT_COEFFICIENTS_H_
