#include "worker/models/memory.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longwave {
namespace {

// 12.3 G, 980 M, 1.0 K: at most a few digits and a decimal prefix.
std::string WithPrefix(double value) {
  const char* prefixes[] = {"", " K", " M", " G", " T", " P"};
  int index = 0;
  while (value >= 999.5 && index < 5) {
    value /= 1000;
    ++index;
  }
  const bool fraction = value < 99.95 && index > 0;
  return absl::StrCat(absl::StrFormat("%.*f", fraction ? 1 : 0, value), prefixes[index]);
}

}  // namespace

absl::StatusOr<double> AvailableMemoryBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  double kibibytes = 0;
  std::string unit;
  while (meminfo >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    std::getline(meminfo, unit);
  }
  return absl::UnavailableError("memory: /proc/meminfo has no MemAvailable");
}

absl::Status CheckMemory(double parameter_count, double activation_bytes, double available_bytes) {
  const double wanted = parameter_count * kBytesPerParameter + activation_bytes;
  if (wanted <= available_bytes) return absl::OkStatus();
  auto bytes = [](double value) {
    const std::string text = WithPrefix(value);
    return absl::StrCat(text, text.find(' ') == std::string::npos ? " B" : "B");
  };
  return absl::ResourceExhaustedError(
      absl::StrCat("model: ", WithPrefix(parameter_count), " parameters want about ", bytes(wanted),
                   " of memory for this worker, ", bytes(available_bytes), " are available"));
}

}  // namespace longwave
