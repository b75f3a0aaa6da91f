#ifndef LONGWAVE_COMMON_RPC_COORDINATOR_CLIENT_H_
#define LONGWAVE_COMMON_RPC_COORDINATOR_CLIENT_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/rpc/admission_records.h"
#include "longwave/v1/coordinator.calls.h"

namespace longwave {

// The deadline of a call for which a person waits, of a coordinator that may be busy.
inline constexpr absl::Duration kCommandDeadline = absl::Seconds(15);

// Calls to the coordinator. Thread-safe. Each call ends within `deadline` of Connect. Errors beside
// the call's own: Unavailable (no answer), InvalidArgument (a text that is not UTF-8).
class CoordinatorClient : public CoordinatorCalls {
 public:
  // address: "host:port". Returns without waiting for the coordinator. credentials: the folder of
  // the caller's credentials (common/security/credentials.h), reread when its files change; empty:
  // plain text.
  static std::unique_ptr<CoordinatorClient> Connect(const std::string& address,
                                                    absl::Duration deadline = absl::Seconds(5),
                                                    const std::string& credentials = "");
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_COORDINATOR_CLIENT_H_
