#ifndef LONGWAVE_TESTS_BENCH_VERDICT_H_
#define LONGWAVE_TESTS_BENCH_VERDICT_H_

#include <cstdint>
#include <string_view>

namespace longwave {

// How a figure stands to a bar of the project.
enum class Verdict : uint8_t { kMet, kNotMet, kNotMeasured };

constexpr std::string_view Name(Verdict verdict) {
  if (verdict == Verdict::kNotMeasured) return "not measured";
  return verdict == Verdict::kMet ? "met" : "not met";
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_VERDICT_H_
