#include "common/rpc/listen_check.h"

#include "common/base/listener.h"
#include "common/base/status_macros.h"

namespace longwave {

absl::StatusOr<std::string> CheckListenAddress(const std::string& address) {
  LONGWAVE_ASSIGN_OR_RETURN(const Listener listener, Listener::Open(address));
  return listener.host();
}

}  // namespace longwave
