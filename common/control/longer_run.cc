#include "common/control/longer_run.h"

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"

namespace longwave {
namespace {

// The value of run.steps, which is taken out of `settings`; 0: there is none.
uint64_t TakeSteps(std::string* settings) {
  constexpr std::string_view kKey = "run.steps: ";
  const size_t begin = settings->find(kKey);
  const size_t end = settings->find('\n', begin);
  if (begin == std::string::npos || end == std::string::npos) return 0;
  const size_t value = begin + kKey.size();
  uint64_t steps = 0;
  if (!absl::SimpleAtoi(settings->substr(value, end - value), &steps)) return 0;
  settings->erase(begin, end - begin);
  return steps;
}

}  // namespace

bool IsLongerRun(std::string_view before, std::string_view now) {
  std::string was(before), is(now);
  const uint64_t steps_before = TakeSteps(&was);
  return steps_before > 0 && TakeSteps(&is) > steps_before && was == is;
}

}  // namespace longwave
