#include "tests/support/reference/dct.h"

#include <cmath>
#include <numbers>

namespace longwave::ref {
namespace {

// Applies the basis B[k, j] = s(k) cos(π (2j+1) k / 2n), or its transpose, to `count` vectors:
// element i of vector v is at x[v * step_vector + i * step_element]. The cosine has period 4n in
// (2j+1)·k, so that 4n values of it suffice.
std::vector<double> Apply(const std::vector<double>& x, uint32_t n, uint32_t count,
                          uint32_t step_element, uint32_t step_vector, bool transposed) {
  if (n == 1) return x;
  std::vector<double> cosine(4 * n);
  for (uint32_t i = 0; i < 4 * n; ++i) cosine[i] = std::cos(std::numbers::pi * i / (2.0 * n));
  std::vector<double> y(x.size(), 0.0);
  for (uint32_t k = 0; k < n; ++k) {
    const double scale = std::sqrt((k == 0 ? 1.0 : 2.0) / n);
    uint32_t angle = k;  // (2j + 1)·k modulo 4n
    for (uint32_t j = 0; j < n; ++j) {
      const double b = scale * cosine[angle];
      const uint32_t from = transposed ? k : j, to = transposed ? j : k;
      for (uint32_t v = 0; v < count; ++v) {
        y[v * step_vector + to * step_element] += b * x[v * step_vector + from * step_element];
      }
      angle += 2 * k;
      if (angle >= 4 * n) angle -= 4 * n;
    }
  }
  return y;
}

// The transpose of x[rows, cols].
std::vector<double> Transposed(const std::vector<double>& x, uint32_t rows, uint32_t cols) {
  std::vector<double> y(x.size());
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t c = 0; c < cols; ++c) y[c * rows + r] = x[r * cols + c];
  }
  return y;
}

}  // namespace

std::vector<double> Dct(const std::vector<double>& x, uint32_t rows, uint32_t cols) {
  return Transposed(Apply(Apply(x, rows, cols, cols, 1, false), cols, rows, 1, cols, false), rows,
                    cols);
}

std::vector<double> InverseDct(const std::vector<double>& x, uint32_t rows, uint32_t cols) {
  return Apply(Apply(Transposed(x, cols, rows), cols, rows, 1, cols, true), rows, cols, cols, 1,
               true);
}

}  // namespace longwave::ref
