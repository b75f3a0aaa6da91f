#ifndef LONGWAVE_CLI_REPORT_THIN_H_
#define LONGWAVE_CLI_REPORT_THIN_H_

#include <cstddef>
#include <vector>

namespace longwave {

// How a point of a thinned series is made of those that it stands for.
enum class Thinning {
  kLast,  // of sums and counters
  kMean,  // of values; those that are not known (NaN) do not count
};

// At most `points` values, each of equally many of `values` but the last, which may be of fewer.
// NaN: none of them is known.
std::vector<double> Thin(const std::vector<double>& values, size_t points, Thinning thinning);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPORT_THIN_H_
