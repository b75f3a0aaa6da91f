#include "tests/bench/shard/machine.h"

#include <sched.h>

#include <ctime>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace longwave {
namespace {

void Bind(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  // Refused where the machine forbids it: the figures then are those of an unbound run.
  (void)sched_setaffinity(0, sizeof set, &set);
}

absl::Status Gone(pid_t pid) {
  return absl::NotFoundError(absl::StrCat("process ", pid, " is not there"));
}

}  // namespace

std::vector<int> AllowedProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

ScopedProcessors::ScopedProcessors(const std::vector<int>& processors) {
  if (processors.empty()) return;
  before_ = AllowedProcessors();
  Bind(processors);
}

ScopedProcessors::~ScopedProcessors() {
  if (!before_.empty()) Bind(before_);
}

absl::StatusOr<double> ProcessorSeconds(pid_t pid) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return Gone(pid);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

absl::StatusOr<uint64_t> ResidentBytesMax(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    absl::string_view text = line;
    if (!absl::ConsumePrefix(&text, "VmHWM:")) continue;
    uint64_t kibibytes = 0;
    text = absl::StripAsciiWhitespace(text);
    if (absl::ConsumeSuffix(&text, " kB") && absl::SimpleAtoi(text, &kibibytes)) {
      return kibibytes * 1024;
    }
  }
  return Gone(pid);
}

}  // namespace longwave
