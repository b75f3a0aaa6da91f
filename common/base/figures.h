#ifndef LONGWAVE_COMMON_BASE_FIGURES_H_
#define LONGWAVE_COMMON_BASE_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace longwave {

// Texts of figures for people: units are powers of 1000, with three or four digits.

std::string FormatBytes(double bytes);       // "999 B", "1.0 kB", "63.2 kB", "13.8 MB"
std::string FormatCount(double count);       // "999", "12.3 k", "1.05 M"
std::string FormatDuration(double seconds);  // "0:07", "12:03", "1:02:03"; "-" if not finite
std::string FormatSeconds(absl::Duration duration);  // "0.3 s", "300.0 s": a span in a sentence
// "2.187"; "-" for a loss that is not known: none, or NaN
std::string FormatLoss(std::optional<double> loss);
std::string FormatRatio(double numerator, double denominator);  // "218 x", "6.1 x"; "-" by zero
std::string FormatHash(uint64_t hash);                          // 16 hex digits

// The first words of a line about a finished round: "round  3/32  step  45/480  loss 2.573".
struct RoundFigures {
  uint64_t rounds_done = 0, rounds = 0;
  uint64_t step = 0, steps = 0;
  std::optional<double> train_loss;
};
std::string FormatRound(const RoundFigures& figures);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_FIGURES_H_
