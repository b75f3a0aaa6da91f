#include "common/rpc/grpc_log.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/log.h"
#include "grpc/support/log.h"

namespace longwave {
namespace {

// gRPC's line for each connection to a secured server: clients send the host that they connect to,
// whereas certificates name processes.
constexpr char kOfEveryConnection[] = "No match found for server name";

void PassOn(gpr_log_func_args* line) {
  if (line->severity != GPR_LOG_SEVERITY_ERROR) return;
  if (absl::StrContains(line->message, kOfEveryConnection)) return;
  static std::mutex mutex;
  static absl::Time since = absl::InfinitePast();
  static uint64_t count = 0;  // since then
  uint64_t left_out = 0;
  {
    const std::lock_guard lock(mutex);
    if (const absl::Time now = MonotonicNow();
        now - since >= absl::Seconds(kGrpcLinesWindowSeconds)) {
      since = now;
      if (count > kGrpcLinesMax) left_out = count - kGrpcLinesMax;
      count = 0;
    }
    if (++count > kGrpcLinesMax) return;
  }
  const char* const slash = std::strrchr(line->file, '/');
  Log(LogLevel::kWarning,
      absl::StrCat("gRPC: ", slash == nullptr ? line->file : slash + 1, ":", line->line, ": ",
                   line->message,
                   left_out == 0 ? "" : absl::StrCat(" (", left_out, " lines were left out)")));
}

}  // namespace

void TakeGrpcLog() {
  static const bool taken = [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(PassOn);
    return true;
  }();
  static_cast<void>(taken);
}

}  // namespace longwave
