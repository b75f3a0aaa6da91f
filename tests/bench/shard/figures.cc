#include "tests/bench/shard/figures.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/verdict.h"

namespace longwave {
namespace {

// The project's bars for one shard on one processor (with k 64 in 1 bit), and for the bytes with
// any number of workers.
constexpr double kMergedPerSecondMin = 400e6;
constexpr double kBytesUp = 0.0181;
constexpr double kBytesDown = 0.063;
constexpr double kBytesTolerance = 0.03;
// "Does not grow": within the difference of two equal runs.
constexpr double kCostGrowthMax = 1.1;

double Over(double a, double b) { return b > 0 ? a / b : 0; }

double PerParameter(uint64_t bytes, const ShardFigures& figures) {
  return Over(static_cast<double>(bytes), static_cast<double>(figures.parameters) *
                                              figures.workers *
                                              static_cast<double>(figures.load.rounds));
}

// By nearest rank, of a list in any order; 0 for an empty one.
double Percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  const auto rank =
      static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

struct Bar {
  std::string what;
  std::optional<double> value;  // not measured without it
  double wanted = 0;
  bool at_most = false;  // else: at least
  std::string reason;    // why it was not measured
};

std::string DescribeBar(const Bar& bar) {
  if (!bar.value)
    return absl::StrFormat("%s  %s: %s\n", Name(Verdict::kNotMeasured), bar.what, bar.reason);
  const bool met = bar.at_most ? *bar.value <= bar.wanted : *bar.value >= bar.wanted;
  return absl::StrFormat("%-7s  %s: %.4g, wanted %s %g\n",
                         Name(met ? Verdict::kMet : Verdict::kNotMet), bar.what, *bar.value,
                         bar.at_most ? "at most" : "at least", bar.wanted);
}

}  // namespace

double ShardFigures::MergedPerSecond() const {
  return Over(static_cast<double>(coefficients * load.rounds) * workers, load.seconds);
}
double ShardFigures::MergedPerProcessorSecond() const {
  return Over(static_cast<double>(coefficients * load.rounds) * workers, processor_seconds);
}
double ShardFigures::ProcessorSecondsPerPush() const {
  return Over(processor_seconds, static_cast<double>(load.accepted));
}
double ShardFigures::PayloadUp() const { return PerParameter(counted.payload_received, *this); }
double ShardFigures::PayloadDown() const { return PerParameter(counted.payload_sent, *this); }
double ShardFigures::SocketUp() const { return PerParameter(counted.bytes_received, *this); }
double ShardFigures::SocketDown() const { return PerParameter(counted.bytes_sent, *this); }

std::string DescribeBars(const BenchShardOptions& options, const std::vector<ShardFigures>& runs) {
  std::string bars;
  const bool one_core = options.shards == 1 && !options.no_pin;
  for (const ShardFigures& run : runs) {
    if (options.check_bytes) break;  // too short for times
    const std::string with = absl::StrCat(", ", run.workers, " workers");
    Bar merged{absl::StrCat("merged coefficients a second of one core", with), std::nullopt,
               kMergedPerSecondMin};
    if (one_core) {
      merged.value = run.MergedPerProcessorSecond();
    } else {
      merged.reason = "needs one shard on a processor of its own";
    }
    bars += DescribeBar(merged);
  }
  if (!options.check_bytes) {
    Bar growth{"processor time a push, most workers over fewest", std::nullopt, kCostGrowthMax,
               true, "needs a sweep that reaches from 8 to 512 workers"};
    if (runs.size() > 1 && runs.front().workers <= 8 && runs.back().workers >= 512) {
      growth.value =
          Over(runs.back().ProcessorSecondsPerPush(), runs.front().ProcessorSecondsPerPush());
    }
    bars += DescribeBar(growth);
  }
  const auto furthest = [&](double (ShardFigures::*bytes)() const, double wanted) {
    double most = 0;
    for (const ShardFigures& run : runs) {
      most = std::max(most, std::fabs((run.*bytes)() / wanted - 1));
    }
    return most;
  };
  Bar up{absl::StrCat("bytes up at the socket, share away from ", kBytesUp), std::nullopt,
         kBytesTolerance, true, "needs 1 M parameters and no settings of its own"};
  Bar down{absl::StrCat("bytes down at the socket, share away from ", kBytesDown), std::nullopt,
           kBytesTolerance, true, up.reason};
  if (options.overrides.empty() && options.params >= 1'000'000) {
    up.value = furthest(&ShardFigures::SocketUp, kBytesUp);
    down.value = furthest(&ShardFigures::SocketDown, kBytesDown);
  }
  return bars + DescribeBar(up) + DescribeBar(down);
}

std::string DescribeFigures(const ShardFigures& figures) {
  const LoadFigures& load = figures.load;
  const auto gb = [](double bytes) { return bytes / 1e9; };
  const double seconds = load.seconds;
  std::string text = absl::StrFormat(
      "%u workers, %u segments, %d rounds in %.2f s\n"
      "  payload             %.3f GB/s in, %.3f GB/s out\n"
      "  merged              %.0f M coefficients/s, %.0f M per second of the shard's processor\n"
      "  the merge alone     %.0f M coefficients/s\n"
      "  a push and its merged frame  %.1f us of the shard's processor\n"
      "  segment closed      p50 %.2f ms, p99 %.2f ms after the last push\n"
      "  memory              %.0f MB at most\n"
      "  busy                shard %.0f %%, generator %.0f %% of a processor\n"
      "  pushes              %d accepted, %d busy\n",
      figures.workers, figures.segments, load.rounds, seconds,
      gb(Over(static_cast<double>(load.link.payload_sent), seconds)),
      gb(Over(static_cast<double>(load.link.payload_received), seconds)),
      figures.MergedPerSecond() / 1e6, figures.MergedPerProcessorSecond() / 1e6,
      figures.merge_alone_per_second / 1e6, figures.ProcessorSecondsPerPush() * 1e6,
      Percentile(load.close_seconds, 50) * 1e3, Percentile(load.close_seconds, 99) * 1e3,
      static_cast<double>(figures.resident_bytes_max) / 1e6,
      100 * Over(figures.processor_seconds, seconds), 100 * Over(load.generator_seconds, seconds),
      load.accepted, load.busy);
  absl::StrAppendFormat(&text,
                        "  bytes/parameter/round  payload %.5f up, %.5f down; socket %.5f up, "
                        "%.5f down\n",
                        figures.PayloadUp(), figures.PayloadDown(), figures.SocketUp(),
                        figures.SocketDown());
  for (const std::string* wrong :
       {&figures.disagreement, &figures.wrong_merge, &figures.wrong_bytes}) {
    if (!wrong->empty()) absl::StrAppend(&text, "  WRONG  ", *wrong, "\n");
  }
  return text;
}

}  // namespace longwave
