#include "common/rpc/listen_check.h"

#include "common/base/listen_address.h"
#include "common/base/status_macros.h"

namespace longwave {

absl::StatusOr<std::string> CheckListenAddress(const std::string& address) {
  LONGWAVE_ASSIGN_OR_RETURN(const ListenAddress found, FindListenAddress(address));
  return found.host;
}

}  // namespace longwave
