#ifndef LONGWAVE_CLI_BENCH_VERDICT_H_
#define LONGWAVE_CLI_BENCH_VERDICT_H_

#include <cstdint>
#include <string_view>

namespace longwave {

// How a figure stands to a bar of the project.
enum class Verdict : uint8_t { kMet, kNotMet, kNotMeasured };

std::string_view Name(Verdict verdict);  // "met", "not met", "not measured"

}  // namespace longwave

#endif  // LONGWAVE_CLI_BENCH_VERDICT_H_
