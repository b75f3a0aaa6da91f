#include "tests/bench/shard/figures.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longwave {
namespace {

// The project's bars for one shard on one processor (with k 64 in 1 bit), and for the bytes with
// any number of workers.
constexpr double kMergedPerSecondMin = 400e6;
constexpr double kShareOfRawMin = 0.6;
constexpr double kBytesUp = 0.0181;
constexpr double kBytesDown = 0.063;
constexpr double kBytesTolerance = 0.03;
// "Does not grow": within the difference of two equal runs.
constexpr double kCostGrowthMax = 1.1;

double Over(double a, double b) { return b > 0 ? a / b : 0; }

double PayloadBytes(const LoadFigures& load) {
  return static_cast<double>(load.payload_sent + load.payload_received);
}

double PerParameter(uint64_t bytes, const ShardFigures& figures) {
  return Over(static_cast<double>(bytes), static_cast<double>(figures.parameters) *
                                              figures.workers *
                                              static_cast<double>(figures.shard.load.rounds));
}

bool IsDesign(const BenchShardOptions& options) {
  return options.k == 64 && options.bits == 1 && options.overrides.empty();
}

nlohmann::json ToJson(const ServedLoad& served) {
  const LoadFigures& load = served.load;
  return {{"seconds", load.seconds},
          {"processor_seconds", served.processor_seconds},
          {"generator_processor_seconds", load.generator_seconds},
          {"rounds", load.rounds},
          {"pushes", load.pushes},
          {"payload_bytes_in", load.payload_sent},
          {"payload_bytes_out", load.payload_received},
          {"payload_gb_per_s_in", Over(static_cast<double>(load.payload_sent), load.seconds) / 1e9},
          {"payload_gb_per_s_out",
           Over(static_cast<double>(load.payload_received), load.seconds) / 1e9},
          {"payload_gb_per_processor_second", served.PayloadPerProcessorSecond() / 1e9},
          {"close_ms_p50", Percentile(load.close_seconds, 50) * 1e3},
          {"close_ms_p99", Percentile(load.close_seconds, 99) * 1e3}};
}

nlohmann::json ToJson(const ShardFigures& figures) {
  const LoadFigures& load = figures.shard.load;
  nlohmann::json json = {
      {"workers", figures.workers},
      {"segments", figures.segments},
      {"parameters", figures.parameters},
      {"coefficients_per_worker_and_round", figures.coefficients},
      {"shard", ToJson(figures.shard)},
      {"merged_coefficients_per_second", figures.MergedPerSecond()},
      {"merged_coefficients_per_processor_second", figures.MergedPerProcessorSecond()},
      {"merge_alone_coefficients_per_second", figures.merge_alone_per_second},
      {"processor_microseconds_per_push", figures.ProcessorSecondsPerPush() * 1e6},
      {"resident_bytes_max", figures.resident_bytes_max},
      {"pushes_accepted", load.accepted},
      {"pushes_busy", load.busy},
      {"pushes_refused", load.refused},
      {"counted_by_shards",
       {{"pushes_accepted", figures.counted.pushes_accepted},
        {"segments_closed", figures.counted.segments_closed},
        {"bytes_received", figures.counted.bytes_received},
        {"bytes_sent", figures.counted.bytes_sent},
        {"payload_received", figures.counted.payload_received},
        {"payload_sent", figures.counted.payload_sent}}},
      {"bytes_per_parameter_and_round",
       {{"payload_up", figures.PayloadUp()},
        {"payload_down", figures.PayloadDown()},
        {"socket_up", figures.SocketUp()},
        {"socket_down", figures.SocketDown()}}},
      {"correct",
       {{"all_workers_got_the_same", figures.disagreement.empty()},
        {"merge_recomputed", figures.wrong_merge.empty()},
        {"bytes_counted_alike", figures.wrong_bytes.empty()}}}};
  json["raw_zmq"] = figures.raw ? ToJson(*figures.raw) : nlohmann::json();
  return json;
}

}  // namespace

double ServedLoad::PayloadPerSecond() const { return Over(PayloadBytes(load), load.seconds); }
double ServedLoad::PayloadPerProcessorSecond() const {
  return Over(PayloadBytes(load), processor_seconds);
}

double ShardFigures::MergedPerSecond() const {
  return Over(static_cast<double>(coefficients * shard.load.rounds) * workers, shard.load.seconds);
}
double ShardFigures::MergedPerProcessorSecond() const {
  return Over(static_cast<double>(coefficients * shard.load.rounds) * workers,
              shard.processor_seconds);
}
double ShardFigures::ProcessorSecondsPerPush() const {
  return Over(shard.processor_seconds, static_cast<double>(shard.load.accepted));
}
double ShardFigures::PayloadUp() const { return PerParameter(counted.payload_received, *this); }
double ShardFigures::PayloadDown() const { return PerParameter(counted.payload_sent, *this); }
double ShardFigures::SocketUp() const { return PerParameter(counted.bytes_received, *this); }
double ShardFigures::SocketDown() const { return PerParameter(counted.bytes_sent, *this); }

double Percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  const auto rank =
      static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::vector<Bar> BarsOf(const BenchShardOptions& options, const std::vector<ShardFigures>& runs) {
  std::vector<Bar> bars;
  const bool one_core = options.shards == 1 && !options.no_pin;
  for (const ShardFigures& run : runs) {
    if (options.check_bytes) break;  // too short for times
    const std::string with = absl::StrCat(", ", run.workers, " workers");
    Bar merged{absl::StrCat("merged coefficients a second of one core", with), std::nullopt,
               kMergedPerSecondMin};
    Bar raw{absl::StrCat("payload throughput over raw ZeroMQ's", with), std::nullopt,
            kShareOfRawMin};
    if (!one_core) {
      merged.reason = raw.reason = "needs one shard on a processor of its own";
    } else {
      merged.value = run.MergedPerProcessorSecond();
      raw.reason = "the raw run was left out";
      if (run.raw) {
        raw.value = Over(run.shard.PayloadPerSecond(), run.raw->PayloadPerSecond());
      }
    }
    bars.push_back(merged);
    bars.push_back(raw);
  }
  if (!options.check_bytes) {
    Bar growth{"processor time a push, most workers over fewest", std::nullopt, kCostGrowthMax,
               true, "needs a sweep that reaches from 8 to 512 workers"};
    if (runs.size() > 1 && runs.front().workers <= 8 && runs.back().workers >= 512) {
      growth.value =
          Over(runs.back().ProcessorSecondsPerPush(), runs.front().ProcessorSecondsPerPush());
    }
    bars.push_back(growth);
  }
  const auto furthest = [&](double (ShardFigures::*bytes)() const, double wanted) {
    double most = 0;
    for (const ShardFigures& run : runs) {
      most = std::max(most, std::fabs((run.*bytes)() / wanted - 1));
    }
    return most;
  };
  Bar up{absl::StrCat("bytes up at the socket, share away from ", kBytesUp), std::nullopt,
         kBytesTolerance, true, "needs k 64 in 1 bit, 1 M parameters and no settings of its own"};
  Bar down{absl::StrCat("bytes down at the socket, share away from ", kBytesDown), std::nullopt,
           kBytesTolerance, true, up.reason};
  if (IsDesign(options) && options.params >= 1'000'000) {
    up.value = furthest(&ShardFigures::SocketUp, kBytesUp);
    down.value = furthest(&ShardFigures::SocketDown, kBytesDown);
  }
  bars.push_back(up);
  bars.push_back(down);
  return bars;
}

std::string DescribeBar(const Bar& bar) {
  const std::string_view verdict = Name(bar.verdict());
  if (!bar.value) return absl::StrFormat("%s  %s: %s", verdict, bar.what, bar.reason);
  return absl::StrFormat("%-7s  %s: %.4g, wanted %s %g", verdict, bar.what, *bar.value,
                         bar.at_most ? "at most" : "at least", bar.wanted);
}

std::string DescribeFigures(const ShardFigures& figures) {
  const LoadFigures& load = figures.shard.load;
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
      "  pushes              %d accepted, %d busy, %d refused\n",
      figures.workers, figures.segments, load.rounds, seconds,
      gb(Over(static_cast<double>(load.payload_sent), seconds)),
      gb(Over(static_cast<double>(load.payload_received), seconds)),
      figures.MergedPerSecond() / 1e6, figures.MergedPerProcessorSecond() / 1e6,
      figures.merge_alone_per_second / 1e6, figures.ProcessorSecondsPerPush() * 1e6,
      Percentile(load.close_seconds, 50) * 1e3, Percentile(load.close_seconds, 99) * 1e3,
      static_cast<double>(figures.resident_bytes_max) / 1e6,
      100 * Over(figures.shard.processor_seconds, seconds),
      100 * Over(load.generator_seconds, seconds), load.accepted, load.busy, load.refused);
  if (figures.raw) {
    const ServedLoad& raw = *figures.raw;
    absl::StrAppendFormat(
        &text,
        "  raw ZeroMQ          %.3f GB/s in, %.3f GB/s out; the shard reaches %.0f %% of "
        "it, %.0f %% by its processor's time\n",
        gb(Over(static_cast<double>(raw.load.payload_sent), raw.load.seconds)),
        gb(Over(static_cast<double>(raw.load.payload_received), raw.load.seconds)),
        100 * Over(figures.shard.PayloadPerSecond(), raw.PayloadPerSecond()),
        100 * Over(figures.shard.PayloadPerProcessorSecond(), raw.PayloadPerProcessorSecond()));
  }
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

std::string FiguresAsJson(const BenchShardOptions& options, const std::vector<int>& processors,
                          uint32_t generators, const std::vector<ShardFigures>& runs) {
  nlohmann::json json = {{"bench", "shard"},
                         {"parameters", options.params},
                         {"k", options.k},
                         {"bits", options.bits},
                         {"shards", options.shards},
                         {"overrides", options.overrides},
                         {"state_kept", options.keep_state},
                         {"shard_processors", processors},
                         {"generator_threads", generators},
                         {"runs", nlohmann::json::array()},
                         {"bars", nlohmann::json::array()}};
  bool correct = true;
  for (const ShardFigures& run : runs) {
    json["runs"].push_back(ToJson(run));
    correct = correct && run.correct();
  }
  for (const Bar& bar : BarsOf(options, runs)) {
    json["bars"].push_back({{"what", bar.what},
                            {"value", bar.value ? nlohmann::json(*bar.value) : nlohmann::json()},
                            {"wanted", bar.wanted},
                            {"at_most", bar.at_most},
                            {"verdict", Name(bar.verdict())},
                            {"reason", bar.value ? "" : bar.reason}});
  }
  json["correct"] = correct;
  return json.dump(2) + "\n";
}

}  // namespace longwave
