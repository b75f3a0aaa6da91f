#include "tests/sim/trace.h"

#include "absl/strings/str_format.h"

namespace longwave::sim {

void Trace::Say(const std::string& text) {
  const absl::Duration since = scheduler_->now() - Scheduler().now();
  listener_(absl::StrFormat("%11.6f  %s", absl::ToDoubleSeconds(since), text));
}

}  // namespace longwave::sim
