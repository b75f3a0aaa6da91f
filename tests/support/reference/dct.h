#ifndef LONGWAVE_TESTS_SUPPORT_REFERENCE_DCT_H_
#define LONGWAVE_TESTS_SUPPORT_REFERENCE_DCT_H_

#include <cstdint>
#include <vector>

namespace longwave::ref {

// The orthonormal DCT-II of x[rows, cols] down the columns and along the rows, straight from its
// definition in double precision:
//   X[k, l] = s(k) s(l) Σ_i Σ_j x[i, j] cos(π (2i+1) k / 2·rows) cos(π (2j+1) l / 2·cols),
// s(0) = √(1/n), s(k>0) = √(2/n) for the respective length n. X[k, l] is number l·rows + k of the
// result (dct_plan.h). One row is the transform of a run.
std::vector<double> Dct(const std::vector<double>& x, uint32_t rows, uint32_t cols);

// The inverse of Dct, which is its transpose.
std::vector<double> InverseDct(const std::vector<double>& x, uint32_t rows, uint32_t cols);

}  // namespace longwave::ref

#endif  // LONGWAVE_TESTS_SUPPORT_REFERENCE_DCT_H_
