#ifndef LONGWAVE_TESTS_BENCH_LINK_REPORT_H_
#define LONGWAVE_TESTS_BENCH_LINK_REPORT_H_

#include <string>
#include <string_view>

#include "tests/bench/link/figures.h"

namespace longwave {

// A run's lines, printed at its end. unshaped: the reference of its shares.
std::string DescribeRun(const LinkRun& run, const SyncSection& sync, const LinkRun* unshaped);
// Likewise, of a run over links that changed. interval: "auto", or H.
std::string DescribeInterval(std::string_view interval, const LinkRun& run, const LinkRates& rates);
std::string DescribeBaseline(const LinkBaseline& baseline);
// The bars.
std::string DescribeEnd(const LinkFigures& figures);

// tests/bench/README.md, explains the fields.
std::string LinkJson(const LinkFigures& figures);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_LINK_REPORT_H_
