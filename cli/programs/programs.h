#ifndef LONGWAVE_CLI_PROGRAMS_PROGRAMS_H_
#define LONGWAVE_CLI_PROGRAMS_PROGRAMS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longwave {

// The folder of this program, in which the others lie.
absl::StatusOr<std::string> OwnFolder();

// Runs command[0], a path, in the place of this program: it returns only if that cannot be run.
absl::Status Become(const std::vector<std::string>& command);

struct Ended {
  bool well = false;
  std::string output;  // standard output and error, up to 64 KiB
};
// Runs a program to its end. Unavailable: it has not ended within `patience`, and was killed.
absl::StatusOr<Ended> RunToEnd(const std::vector<std::string>& command, absl::Duration patience);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PROGRAMS_PROGRAMS_H_
