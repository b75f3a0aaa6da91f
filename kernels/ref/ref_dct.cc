#include "kernels/ref/ref_dct.h"

#include <cmath>
#include <numbers>

namespace longwave::ref {
namespace {

// basis(k, j) = s(k) cos(π (2j+1) k / 2n). The cosine has period 4n in (2j+1)·k: 4n values suffice.
class Basis {
 public:
  explicit Basis(uint32_t n) : n_(n), cosine_(4 * n) {
    for (uint32_t i = 0; i < 4 * n; ++i) cosine_[i] = std::cos(std::numbers::pi * i / (2.0 * n));
  }
  double operator()(uint32_t k, uint32_t j) const {
    const uint64_t angle = (2 * uint64_t{j} + 1) * k % (4 * uint64_t{n_});
    return std::sqrt((k == 0 ? 1.0 : 2.0) / n_) * cosine_[angle];
  }

 private:
  uint32_t n_;
  std::vector<double> cosine_;
};

// Applies the basis, or its transpose, to `count` vectors: element i of vector v is at
// x[v * step_vector + i * step_element].
std::vector<double> Apply(const std::vector<double>& x, uint32_t n, uint32_t count,
                          uint32_t step_element, uint32_t step_vector, bool transposed) {
  if (n == 1) return x;
  const Basis basis(n);
  std::vector<double> y(x.size(), 0.0);
  for (uint32_t k = 0; k < n; ++k) {
    for (uint32_t j = 0; j < n; ++j) {
      const double b = transposed ? basis(j, k) : basis(k, j);
      for (uint32_t v = 0; v < count; ++v) {
        y[v * step_vector + k * step_element] += b * x[v * step_vector + j * step_element];
      }
    }
  }
  return y;
}

}  // namespace

std::vector<double> Dct(const std::vector<double>& x, uint32_t rows, uint32_t cols) {
  return Apply(Apply(x, rows, cols, cols, 1, false), cols, rows, 1, cols, false);
}

std::vector<double> InverseDct(const std::vector<double>& x, uint32_t rows, uint32_t cols) {
  return Apply(Apply(x, cols, rows, 1, cols, true), rows, cols, cols, 1, true);
}

}  // namespace longwave::ref
