#ifndef LONGWAVE_SERVER_COORDINATOR_SENTENCES_H_
#define LONGWAVE_SERVER_COORDINATOR_SENTENCES_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/figures.h"

namespace longwave {

// Private to this folder.

// "; the run waits for it for 300.0 s": without the time if it has no end.
inline std::string WaitsFor(absl::string_view whom, absl::Duration patience) {
  return absl::StrCat(
      "; the run waits for ", whom,
      patience == absl::InfiniteDuration() ? "" : " for " + FormatSeconds(patience));
}

// Why a worker that has left is told to stop; follows its name.
inline constexpr char kIsNoMember[] = " is no longer a member";

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_SENTENCES_H_
