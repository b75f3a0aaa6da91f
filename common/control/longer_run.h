#ifndef LONGWAVE_COMMON_CONTROL_LONGER_RUN_H_
#define LONGWAVE_COMMON_CONTROL_LONGER_RUN_H_

#include <string_view>

namespace longwave {

// Whether the settings `now` (lines "key: value") are those of `before` with a larger run.steps and
// no other difference: a run may be made longer before its end.
bool IsLongerRun(std::string_view before, std::string_view now);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONTROL_LONGER_RUN_H_
