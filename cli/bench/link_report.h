#ifndef LONGWAVE_CLI_BENCH_LINK_REPORT_H_
#define LONGWAVE_CLI_BENCH_LINK_REPORT_H_

#include <string>
#include <string_view>

#include "cli/bench/link_figures.h"

namespace longwave {

// One run's lines, printed as soon as it has ended. unshaped: what its shares are held against.
std::string DescribeRun(const LinkRun& run, const SyncSection& sync, const LinkRun* unshaped);
std::string DescribeBaseline(const LinkBaseline& baseline);
// What the figures mean, the times to the target, and the bars.
std::string DescribeEnd(const LinkFigures& figures);

// The commit of the source when this program was built, with a "+" if there were changes beside it;
// "unknown" where git did not know.
std::string_view BenchCommit();

// docs/benchmarks.md, "Links", says what each field means.
std::string LinkJson(const LinkFigures& figures);

}  // namespace longwave

#endif  // LONGWAVE_CLI_BENCH_LINK_REPORT_H_
