#include "cli/report/numbers.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace longwave {

nlohmann::ordered_json NumbersJson(const std::vector<double>& numbers) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const double number : numbers) {
    double rounded = 0;
    if (!std::isfinite(number) || !absl::SimpleAtod(absl::StrFormat("%.6g", number), &rounded)) {
      array.push_back(nullptr);
    } else if (rounded == std::trunc(rounded) && std::fabs(rounded) < 1e15) {
      array.push_back(static_cast<int64_t>(rounded));
    } else {
      array.push_back(rounded);
    }
  }
  return array;
}

}  // namespace longwave
