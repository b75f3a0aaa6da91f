#include "kernels/cpu/rotations.h"

#include <array>
#include <vector>

#include "kernels/dct_coefficients.h"

namespace longwave::cpu {
namespace {

struct Tables {
  std::array<std::vector<float>, kRotationLengths> values;
  std::array<Rotations, kRotationLengths> rotations;

  Tables() {
    for (uint32_t log = 5; log < kRotationLengths; ++log) {
      const uint32_t n = 1u << log, half = n / 2;
      std::vector<float>& v = values[log];
      v.resize(4 * half);
      for (uint32_t j = 0; j < half; ++j) {
        const auto cosine = static_cast<float>(RotationCosine(n, j));
        const auto sine = static_cast<float>(RotationSine(n, j));
        const float sign = j % 2 == 0 ? 1.0f : -1.0f;
        v[j] = cosine;
        v[half + j] = sine;
        v[2 * half + j] = -sign * cosine;
        v[3 * half + j] = sign * sine;
      }
      rotations[log] = {v.data(), v.data() + half, v.data() + 2 * half, v.data() + 3 * half};
    }
  }
};

}  // namespace

const Rotations* AllRotations() {
  static const Tables tables;
  return tables.rotations.data();
}

}  // namespace longwave::cpu
