#include "common/rpc/grpc_log.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "absl/strings/match.h"
#include "common/base/clock.h"
#include "common/log/log.h"
#include "common/rpc/line_limit.h"
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
  static LineLimit limit(kGrpcLinesMax, absl::Minutes(1));
  std::string left_out;
  {
    const std::lock_guard lock(mutex);
    if (!limit.May(MonotonicNow(), &left_out)) return;
  }
  const char* const slash = std::strrchr(line->file, '/');
  Log(LogLevel::kWarning, "gRPC: ", slash == nullptr ? line->file : slash + 1, ":", line->line,
      ": ", line->message, left_out);
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
