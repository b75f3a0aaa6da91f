#include "common/rpc/convert.h"

#include "common/base/errors.h"

namespace longwave {

absl::Status CheckMore(const v1::WorkerHeartbeatRequest& message) {
  constexpr int kLast = v1::WORKER_PHASE_FAILED;  // the coordinator alone sets the others
  const int phase = message.state().phase();
  if (phase <= kLast) return absl::OkStatus();
  return InvalidArgument("WorkerHeartbeatRequest: phase: got ", phase, ", wanted 1 to ", kLast);
}

}  // namespace longwave
