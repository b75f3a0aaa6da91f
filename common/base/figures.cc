#include "common/base/figures.h"

#include <array>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longwave {
namespace {

// `value` with a prefix that keeps the printed number below 1000: 999.96 k becomes 1.0 M.
std::string WithPrefix(double value, std::string_view unit) {
  static constexpr std::array<std::string_view, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  while (prefix + 1 < kPrefixes.size() && value >= (prefix == 0 ? 999.5 : 999.95)) {
    value /= 1000;
    ++prefix;
  }
  if (prefix == 0 && unit.empty()) return absl::StrFormat("%.0f", value);
  if (prefix == 0) return absl::StrFormat("%.0f %s", value, unit);
  return absl::StrFormat("%.1f %s%s", value, kPrefixes[prefix], unit);
}

}  // namespace

std::string FormatBytes(double bytes) { return WithPrefix(bytes, "B"); }

std::string FormatCount(double count) { return WithPrefix(count, ""); }

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  const auto whole = static_cast<uint64_t>(seconds + 0.5);
  const uint64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? absl::StrFormat("%d:%02d:%02d", hours, minutes, rest)
                   : absl::StrFormat("%d:%02d", minutes, rest);
}

std::string FormatSeconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

std::string FormatLoss(std::optional<double> loss) {
  return !loss || std::isnan(*loss) ? "-" : absl::StrFormat("%.3f", *loss);
}

std::string FormatRatio(double numerator, double denominator) {
  if (denominator <= 0 || numerator <= 0) return "-";
  const double ratio = numerator / denominator;
  return ratio < 9.95 ? absl::StrFormat("%.1f x", ratio) : absl::StrFormat("%.0f x", ratio);
}

std::string FormatHash(uint64_t hash) { return absl::StrFormat("%016x", hash); }

std::string FormatRound(const RoundFigures& figures) {
  const auto digits = [](uint64_t count) { return static_cast<int>(absl::StrCat(count).size()); };
  return absl::StrFormat("round %*d/%d  step %*d/%d  loss %s", digits(figures.rounds),
                         figures.rounds_done, figures.rounds, digits(figures.steps), figures.step,
                         figures.steps, FormatLoss(figures.train_loss));
}

}  // namespace longwave
