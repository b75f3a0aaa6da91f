#ifndef LONGWAVE_WORKER_ABI_ABI_STATUS_H_
#define LONGWAVE_WORKER_ABI_ABI_STATUS_H_

#include "absl/status/status.h"

namespace longwave {

// Stores the status as the calling thread's last one, and returns its lw_status.
int Told(const absl::Status& status);

// The result of lw_error on this thread.
const char* LastError();

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_ABI_STATUS_H_
