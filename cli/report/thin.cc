#include "cli/report/thin.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace longwave {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double Mean(std::span<const double> values) {
  double sum = 0;
  size_t known = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++known;
  }
  return known > 0 ? sum / static_cast<double>(known) : kUnknown;
}

}  // namespace

std::vector<double> Thin(const std::vector<double>& values, size_t points, Thinning thinning) {
  const size_t each = (values.size() + points - 1) / points;
  std::vector<double> thinned;
  for (size_t begin = 0; begin < values.size(); begin += each) {
    const auto part = std::span(values).subspan(begin, std::min(each, values.size() - begin));
    thinned.push_back(thinning == Thinning::kLast ? part.back() : Mean(part));
  }
  return thinned;
}

}  // namespace longwave
