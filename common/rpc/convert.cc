#include "common/rpc/convert.h"

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/rpc/message_fields.h"

namespace longwave {
namespace {

// Limits that a proto's options cannot state.
absl::Status CheckMore(const Message&) { return absl::OkStatus(); }

absl::Status CheckMore(const v1::WorkerHeartbeatRequest& message) {
  constexpr int kLast = v1::WORKER_PHASE_FAILED;  // the coordinator alone sets the others
  const int phase = message.state().phase();
  if (phase <= kLast) return absl::OkStatus();
  return InvalidArgument("WorkerHeartbeatRequest: phase: got ", phase, ", wanted 1 to ", kLast);
}

}  // namespace

#define LONGWAVE_DEFINE_CONVERSION(record, message)                                     \
  v1::message ToProto(const record& value) { return WriteMessage<v1::message>(value); } \
  absl::StatusOr<record> FromProto(const v1::message& from) {                           \
    LONGWAVE_RETURN_IF_ERROR(CheckMore(from));                                          \
    return ReadMessage<record>(from);                                                   \
  }
LONGWAVE_RECORDS_AND_MESSAGES(LONGWAVE_DEFINE_CONVERSION)
#undef LONGWAVE_DEFINE_CONVERSION

}  // namespace longwave
