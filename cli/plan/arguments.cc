#include "cli/plan/arguments.h"

#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/config/key_types.h"

namespace longwave {
namespace {

constexpr uint32_t kCountMax = 65536;  // as run.workers

using Setter = std::function<absl::Status(const std::string& value)>;

// "key=value,key=value".
absl::Status SetEach(const std::string& option, const std::string& text,
                     const std::map<std::string, Setter>& setters) {
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const auto setter = setters.find(pair.first);
    if (setter == setters.end() || !absl::StrContains(part, '=')) {
      return InvalidArgument(option, ": got ", Quotable({part.data(), part.size()}),
                             ", wanted key=value with one of the keys ",
                             absl::StrJoin(setters, ", ", [](std::string* out, const auto& each) {
                               *out += each.first;
                             }));
    }
    LONGWAVE_RETURN_IF_ERROR(setter->second(pair.second));
  }
  return absl::OkStatus();
}

Setter Into(double* member, absl::StatusOr<double> (*parse)(const std::string&, const std::string&),
            const std::string& option) {
  return [=](const std::string& value) -> absl::Status {
    LONGWAVE_ASSIGN_OR_RETURN(*member, parse(option, value));
    return absl::OkStatus();
  };
}

Setter Count(const std::string& option, uint64_t* count) {
  return [=](const std::string& value) -> absl::Status {
    if (ParseWhole(value, count) && *count >= 1 && *count <= kCountMax) return absl::OkStatus();
    return InvalidArgument(option, ": got ", Quotable(value),
                           " for count, wanted a whole number from 1 to ", kCountMax);
  };
}

absl::StatusOr<double> ParseMillions(const std::string& option, const std::string& text) {
  double value = 0;
  if (ParseNumber(text, &value) && value > 0) return value * 1e6;
  return InvalidArgument(option, ": got ", Quotable(text),
                         ", wanted a number above 0, of millions a second");
}

}  // namespace

absl::StatusOr<double> ParseRate(const std::string& option, const std::string& text) {
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}};
  for (const auto& [unit, bits] : kUnits) {
    double value = 0;
    if (absl::EndsWith(text, unit) && ParseNumber({text.data(), text.size() - 4}, &value) &&
        value > 0)
      return value * bits / 8;
  }
  return InvalidArgument(option, ": got ", Quotable(text),
                         ", wanted a rate such as 100Mbit, with kbit, Mbit or Gbit (a second)");
}

absl::StatusOr<double> ParseSeconds(const std::string& option, const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) && duration >= absl::ZeroDuration() &&
      duration < absl::InfiniteDuration())
    return absl::ToDoubleSeconds(duration);
  return InvalidArgument(option, ": got ", Quotable(text), ", wanted a time such as 40ms or 1.5s");
}

absl::StatusOr<PlanWorkers> ParseWorkers(const std::string& text, const PlanWorkers& like) {
  PlanWorkers workers = like;
  const std::string option = "--worker";
  uint64_t count = 1;
  LONGWAVE_RETURN_IF_ERROR(SetEach(option, text,
                                   {{"count", Count(option, &count)},
                                    {"up", Into(&workers.link.up, ParseRate, option)},
                                    {"down", Into(&workers.link.down, ParseRate, option)},
                                    {"rtt", Into(&workers.round_trip_s, ParseSeconds, option)},
                                    {"step", Into(&workers.step_s, ParseSeconds, option)}}));
  workers.count = static_cast<uint32_t>(count);
  return workers;
}

absl::StatusOr<std::vector<PlanLink>> ParseShards(const std::string& text, const PlanLink& like) {
  PlanLink link = like;
  const std::string option = "--shard";
  uint64_t count = 1;
  LONGWAVE_RETURN_IF_ERROR(SetEach(option, text,
                                   {{"count", Count(option, &count)},
                                    {"up", Into(&link.up, ParseRate, option)},
                                    {"down", Into(&link.down, ParseRate, option)}}));
  return std::vector<PlanLink>(count, link);
}

absl::Status ParseKernels(const std::string& text, PlanRates* rates) {
  const std::string option = "--kernels";
  PlanRates given{.encode = 0, .decode = 0, .merge = 0};
  LONGWAVE_RETURN_IF_ERROR(SetEach(option, text,
                                   {{"encode", Into(&given.encode, ParseMillions, option)},
                                    {"decode", Into(&given.decode, ParseMillions, option)},
                                    {"merge", Into(&given.merge, ParseMillions, option)}}));
  if (given.encode == 0 || given.decode == 0 || given.merge == 0)
    return InvalidArgument(option, ": got ", Quotable(text), ", wanted encode, decode and merge");
  rates->encode = given.encode;
  rates->decode = given.decode;
  rates->merge = given.merge;
  return absl::OkStatus();
}

absl::Status ParseDisk(const std::string& text, PlanRates* rates) {
  const std::string option = "--disk";
  return SetEach(option, text,
                 {{"rate", Into(&rates->disk, ParseMillions, option)},
                  {"sync", Into(&rates->disk_sync_s, ParseSeconds, option)}});
}

}  // namespace longwave
