#include "kernels/dct_plan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>

#include "common/base/check.h"
#include "kernels/dct_coefficients.h"

namespace longwave {
namespace {

struct Term {
  uint32_t column;
  double coefficient;
};
using Row = std::vector<Term>;        // ascending columns
using Factor = std::vector<Row>;      // a square sparse matrix
using Factors = std::vector<Factor>;  // the first is applied first

Row TwoTerms(uint32_t p, double a, uint32_t q, double b) {
  if (p < q) return {{p, a}, {q, b}};
  return {{q, b}, {p, a}};
}

Factor Dense(uint32_t n, double (*entry)(uint32_t n, uint32_t k, uint32_t j)) {
  Factor factor(n);
  for (uint32_t k = 0; k < n; ++k) {
    for (uint32_t j = 0; j < n; ++j) factor[k].push_back({j, entry(n, k, j)});
  }
  return factor;
}

// √n times the orthonormal DCT-II and DCT-IV.
double Dct2Entry(uint32_t n, uint32_t k, uint32_t j) {
  if (k == 0) return 1.0;
  return kRoot2 * CosPi(uint64_t{2 * j + 1} * k, uint64_t{2} * n);
}

double Dct4Entry(uint32_t n, uint32_t k, uint32_t j) {
  return kRoot2 * CosPi(uint64_t{2 * j + 1} * (2 * k + 1), uint64_t{4} * n);
}

// diag(A, B) for factorizations of two halves of equal size; the shorter list ends in identities.
Factors Beside(Factors a, Factors b, uint32_t half) {
  Factors joined(std::max(a.size(), b.size()));
  for (size_t s = 0; s < joined.size(); ++s) {
    for (uint32_t i = 0; i < half; ++i) {
      joined[s].push_back(s < a.size() ? std::move(a[s][i]) : Row{{i, 1.0}});
    }
    for (uint32_t i = 0; i < half; ++i) {
      Row row = s < b.size() ? std::move(b[s][i]) : Row{{i, 1.0}};
      for (Term& term : row) term.column += half;
      joined[s].push_back(std::move(row));
    }
  }
  return joined;
}

void Append(Factors& list, Factors tail) {
  for (Factor& factor : tail) list.push_back(std::move(factor));
}

Factors Dct4(uint32_t n);

// Sums go to a DCT-II of half the length, which gives the even outputs; differences to a DCT-IV,
// which gives the odd ones. The interleaving is folded into the last factor's order of rows.
Factors Dct2(uint32_t n) {
  if (n == 1) return {};
  if (n % 2 == 1) return {Dense(n, Dct2Entry)};
  const uint32_t m = n / 2;
  Factor butterfly(n);
  for (uint32_t i = 0; i < m; ++i) {
    butterfly[i] = TwoTerms(i, 1, n - 1 - i, 1);
    butterfly[m + i] = TwoTerms(i, 1, n - 1 - i, -1);
  }
  Factors factors;
  factors.push_back(std::move(butterfly));
  Append(factors, Beside(Dct2(m), Dct4(m), m));
  Factor interleaved(n);
  for (uint32_t k = 0; k < m; ++k) {
    interleaved[2 * k] = std::move(factors.back()[k]);
    interleaved[2 * k + 1] = std::move(factors.back()[m + k]);
  }
  factors.back() = std::move(interleaved);
  return factors;
}

// √n times y[k] = √(2/n) Σ_j x[j] cos(π (2j+1)(2k+1) / 4n): rotations of (x_j, x_{n-1-j}), two
// DCT-II of half the length, and sums and differences of their outputs.
Factors Dct4(uint32_t n) {
  if (n == 1) return {};
  if (n % 2 == 1) return {Dense(n, Dct4Entry)};
  const uint32_t m = n / 2;
  Factor rotation(n);
  for (uint32_t j = 0; j < m; ++j) {
    const double cosine = RotationCosine(n, j), sine = RotationSine(n, j);
    const double sign = j % 2 == 0 ? 1.0 : -1.0;
    rotation[j] = TwoTerms(j, cosine, n - 1 - j, sine);
    rotation[m + j] = TwoTerms(j, sign * sine, n - 1 - j, -sign * cosine);
  }
  Factors factors;
  factors.push_back(std::move(rotation));
  Append(factors, Beside(Dct2(m), Dct2(m), m));
  if (m == 1) return factors;
  Factor combination(n);
  combination[0] = {{0, kRoot2}};
  combination[n - 1] = {{m, kRoot2}};
  for (uint32_t k = 1; k < m; ++k) {
    combination[2 * k] = TwoTerms(k, 1, n - k, -1);
    combination[2 * k - 1] = TwoTerms(k, 1, n - k, 1);
  }
  factors.push_back(std::move(combination));
  return factors;
}

Factors Transposed(const Factors& factors) {
  Factors result;
  for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
    Factor transposed(factor->size());
    for (uint32_t i = 0; i < factor->size(); ++i) {
      for (const Term& term : (*factor)[i]) {
        transposed[term.column].push_back({i, term.coefficient});
      }
    }
    result.push_back(std::move(transposed));
  }
  return result;
}

}  // namespace

class DctPlanCache {
 public:
  const DctPlan& Get(uint32_t length, DctDirection direction) {
    std::atomic<const Pair*>& slot = slots_[length];
    const Pair* pair = slot.load(std::memory_order_acquire);
    if (pair == nullptr) {
      const std::lock_guard lock(mutex_);
      pair = slot.load(std::memory_order_relaxed);
      if (pair == nullptr) {
        owned_.push_back(Build(length));
        pair = owned_.back().get();
        slot.store(pair, std::memory_order_release);
      }
    }
    return direction == DctDirection::kForward ? pair->forward : pair->inverse;
  }

 private:
  struct Pair {
    DctPlan forward;
    DctPlan inverse;
  };

  static DctPlan Flatten(uint32_t length, const Factors& factors) {
    DctPlan plan;
    plan.length_ = length;
    plan.stage_count_ = static_cast<uint32_t>(factors.size());
    for (const Factor& factor : factors) {
      for (const Row& row : factor) {
        plan.row_begin_.push_back(static_cast<uint32_t>(plan.index_.size()));
        for (const Term& term : row) {
          plan.index_.push_back(static_cast<uint16_t>(term.column));
          plan.coefficient_.push_back(static_cast<float>(term.coefficient));
        }
      }
      plan.row_begin_.push_back(static_cast<uint32_t>(plan.index_.size()));
    }
    return plan;
  }

  static std::unique_ptr<Pair> Build(uint32_t length) {
    const Factors factors = Dct2(length);
    return std::unique_ptr<Pair>(
        new Pair{Flatten(length, factors), Flatten(length, Transposed(factors))});
  }

  std::array<std::atomic<const Pair*>, kDctLengthMax + 1> slots_{};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Pair>> owned_;
};

float DctNorm(uint32_t rows, uint32_t cols) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(rows) * cols));
}

const float* DctBasis() {
  struct Table {
    alignas(64) std::array<float, kDctBasisSize> values;
    Table() {
      for (uint32_t j = 0; j < 64; ++j) {
        for (uint32_t c = 0; c < kDctBasisCols; ++c) {
          values[j * kDctBasisCols + c] = static_cast<float>(Dct2Entry(64, j, c));
        }
      }
    }
  };
  static const Table table;
  return table.values.data();
}

const DctPlan& DctPlan::Of(uint32_t length, DctDirection direction) {
  LONGWAVE_CHECK(length >= 1 && length <= kDctLengthMax);
  static DctPlanCache cache;
  return cache.Get(length, direction);
}

}  // namespace longwave
