#ifndef LONGWAVE_KERNELS_DCT_PLAN_H_
#define LONGWAVE_KERNELS_DCT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/dct_stage.h"

namespace longwave {

inline constexpr uint32_t kDctLengthMax = 4096;

enum class DctDirection : uint8_t { kForward = 0, kInverse = 1 };

// The orthonormal DCT-II of one length, or its inverse, as stages (see dct_stage.h):
//   X[k] = s(k) · Σ_j x[j] cos(π (2j+1) k / 2n),  s(0) = √(1/n), s(k>0) = √(2/n).
//
// The stages are the orthogonal factorization of Plonka and Tasche: every factor is orthonormal, so
// rounding errors do not grow from stage to stage at any length. Where a length is not a power of
// two, what is left of it after halving is one dense factor. The inverse is the list of transposed
// stages in reverse. Coefficients are computed in double (trigonometry.h and a correctly rounded
// square root, so the same bits on every machine) and rounded to float.
// Source: Plonka & Tasche 2005, "Fast and numerically stable algorithms for discrete cosine
// transforms", Linear Algebra Appl. 394.
//
// A tile of rows × cols is transformed down its columns first (length rows), then along its rows
// (length cols); the inverse goes along the rows first, then down the columns. A run (rows == 1) is
// transformed along its length. The order is part of the definition, as each value's rounding is.
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

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_DCT_PLAN_H_
