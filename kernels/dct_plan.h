#ifndef LONGWAVE_KERNELS_DCT_PLAN_H_
#define LONGWAVE_KERNELS_DCT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/dct_stage.h"

namespace longwave {

inline constexpr uint32_t kDctLengthMax = 4096;

enum class DctDirection : uint8_t { kForward = 0, kInverse = 1 };

// √n times the orthonormal DCT-II of one length, or √n times its inverse, as stages (dct_stage.h):
//   √n·X[k] = Σ_j x[j] r(k) cos(π (2j+1) k / 2n),  r(0) = 1, r(k>0) = √2.
//
// The stages are the factorization of Plonka and Tasche into orthogonal matrices, each times √2, so
// that its butterflies are plain sums and differences. Rounding errors still do not grow from stage
// to stage at any length. A length that is not a power of two is halved as often as possible; the
// rest is one dense factor. The inverse is the list of transposed stages in reverse. Coefficients
// are computed in double (dct_coefficients.h: the same bits on every machine) and rounded to float.
// Source: Plonka & Tasche 2005, "Fast and numerically stable algorithms for discrete cosine
// transforms", Linear Algebra Appl. 394.
//
// The transform T of a tile of rows × cols, which is orthonormal, is defined as
//   1. every element times DctNorm(rows, cols), rounded       (2^-6 for 4096 elements)
//   2. the columns' stages (length rows), then the rows' (length cols)
//   3. the result transposed: coefficient (i, j) of frequencies i down and j along is number
//      j·rows + i
// and its inverse as 1. every coefficient times DctNorm, 2. the inverse stages of the rows, then of
// the columns. A run (rows == 1) is transformed along its length. The order and each value's
// rounding are part of the definition; dct_codelet.h has the same stages as straight code.
//
// For a payload with few of a tile's coefficients (DctInverseBySums), the inverse is defined as
//   1. every coefficient x[i, j] that was sent times DctNorm, rounded
//   2. even[i, c] and odd[i, c] for c < 32, each from +0 by y = fma(DctBasis()[j, c], x[i, j], y)
//      over the coefficients that were sent of frequency i down, those of even j in the one and
//      those of odd j in the other, in the order of their numbers
//   3. the inverse stages of the columns (length rows) over even and over odd
//   4. u[r, c] = even[r, c] + odd[r, c] and u[r, 63 − c] = even[r, c] − odd[r, c]
// which is the same sum: cosines of even frequencies are even about a row's middle, the others odd.
class DctPlan {
 public:
  // The plan of a length of 1 … kDctLengthMax, built at its first use and kept; from any thread.
  static const DctPlan& Of(uint32_t length, DctDirection direction);

  DctPlanView view() const {
    return {length_, stage_count_, row_begin_.data(), index_.data(), coefficient_.data()};
  }
  size_t term_count() const { return index_.size(); }

 private:
  friend class DctPlanCache;
  DctPlan() = default;

  uint32_t length_ = 0;
  uint32_t stage_count_ = 0;
  std::vector<uint32_t> row_begin_;
  std::vector<uint16_t> index_;
  std::vector<float> coefficient_;
};

// Whether the inverse of a tile with `sent` coefficients in the payload is by sums, which cost less
// than the rows' stages up to the bound (docs/reasons/0007).
inline constexpr uint32_t kDctSumsSentMax = 384;
constexpr bool DctInverseBySums(uint32_t rows, uint32_t cols, uint32_t sent) {
  return rows == 64 && cols == 64 && sent <= kDctSumsSentMax;
}

// The left half of √64 times the inverse transform's basis for length 64, [64, 32], aligned to 64
// bytes: DctBasis()[j, c] = r(j) cos(π (2c+1) j / 128) with r as above. Computed with the stages'
// functions. Thread-safe.
inline constexpr uint32_t kDctBasisCols = 32;
inline constexpr uint32_t kDctBasisSize = 64 * kDctBasisCols;
const float* DctBasis();

// The factor that makes a tile's transform orthonormal: 1/√(rows·cols), rounded to float.
float DctNorm(uint32_t rows, uint32_t cols);

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_DCT_PLAN_H_
