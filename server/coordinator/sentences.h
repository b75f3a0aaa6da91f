#ifndef LONGWAVE_SERVER_COORDINATOR_SENTENCES_H_
#define LONGWAVE_SERVER_COORDINATOR_SENTENCES_H_

#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace longwave {

// Private to this folder.

// "0.3 s": how sentences give a span of time.
inline std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

// Why a worker that has left is told to stop; follows its name.
inline constexpr char kIsNoMember[] = " is no longer a member";

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_SENTENCES_H_
