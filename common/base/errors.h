#ifndef LONGWAVE_COMMON_BASE_ERRORS_H_
#define LONGWAVE_COMMON_BASE_ERRORS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace longwave {

inline absl::string_view ErrorPart(std::string_view part) { return {part.data(), part.size()}; }
template <typename Part>
const Part& ErrorPart(const Part& part) {
  return part;
}

// InvalidArgument("k: got ", k, ", wanted at most ", most) and its kin: an error of that code,
// whose message is its parts in a row. A part is any that absl::StrCat takes, or a
// std::string_view.
#define LONGWAVE_DEFINE_ERROR_(code)                             \
  template <typename... Parts>                                   \
  absl::Status code(const Parts&... parts) {                     \
    return absl::code##Error(absl::StrCat(ErrorPart(parts)...)); \
  }
LONGWAVE_DEFINE_ERROR_(Aborted)
LONGWAVE_DEFINE_ERROR_(AlreadyExists)
LONGWAVE_DEFINE_ERROR_(Cancelled)
LONGWAVE_DEFINE_ERROR_(DataLoss)
LONGWAVE_DEFINE_ERROR_(FailedPrecondition)
LONGWAVE_DEFINE_ERROR_(Internal)
LONGWAVE_DEFINE_ERROR_(InvalidArgument)
LONGWAVE_DEFINE_ERROR_(NotFound)
LONGWAVE_DEFINE_ERROR_(OutOfRange)
LONGWAVE_DEFINE_ERROR_(PermissionDenied)
LONGWAVE_DEFINE_ERROR_(ResourceExhausted)
LONGWAVE_DEFINE_ERROR_(Unauthenticated)
LONGWAVE_DEFINE_ERROR_(Unavailable)
LONGWAVE_DEFINE_ERROR_(Unimplemented)
LONGWAVE_DEFINE_ERROR_(Unknown)
#undef LONGWAVE_DEFINE_ERROR_

// The status with "WHAT: " before its message; OK stays.
inline absl::Status Prefixed(std::string_view what, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(ErrorPart(what), ": ", status.message()));
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_ERRORS_H_
