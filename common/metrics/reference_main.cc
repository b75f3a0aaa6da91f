// Prints the reference of all metrics: longwave-metrics-reference > docs/reference/metrics.md
#include <cstdio>

#include "common/metrics/metric_table.h"

int main() { return std::fputs(longwave::MetricsReference().c_str(), stdout) < 0 ? 1 : 0; }
