#include "worker/abi/abi_status.h"

#include <string>

#include "worker/abi/include/longwave.h"

namespace longwave {
namespace {

std::string& Message() {
  thread_local std::string message;
  return message;
}

int StatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return LW_OK;
    case absl::StatusCode::kInvalidArgument:
      return LW_INVALID;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kNotFound:
      return LW_REFUSED;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return LW_UNAVAILABLE;
    case absl::StatusCode::kCancelled:
      return LW_STOPPED;
    case absl::StatusCode::kAborted:
      return LW_ENDED;
    case absl::StatusCode::kDataLoss:
      return LW_DATA;
    case absl::StatusCode::kResourceExhausted:
      return LW_MEMORY;
    default:
      return LW_INTERNAL;
  }
}

}  // namespace

int Told(const absl::Status& status) {
  Message() = std::string(status.message());
  return StatusOf(status.code());
}

const char* LastError() { return Message().c_str(); }

}  // namespace longwave
