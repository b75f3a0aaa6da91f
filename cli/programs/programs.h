#ifndef LONGWAVE_CLI_PROGRAMS_PROGRAMS_H_
#define LONGWAVE_CLI_PROGRAMS_PROGRAMS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longwave {

// Pointers in execve's form, valid as long as `words`.
std::vector<char*> PointersTo(const std::vector<std::string>& words);

// The folder of this program and the others.
absl::StatusOr<std::string> OwnFolder();

// The program's path as a shell would find it; nullopt if there is none.
std::optional<std::string> FindProgram(const std::string& name);

// The folder of longwave-worker: this program's or, since the Python package brings none, the one
// that PATH leads to. Errors: NotFound.
absl::StatusOr<std::string> WorkerFolder();

// Replaces this program by command[0], a path. Returns only on failure.
absl::Status Become(const std::vector<std::string>& command);

struct Ended {
  bool well = false;
  std::string output;  // standard output and error, up to 64 KiB
};
// Runs a program to its end. Errors: Unavailable (killed after `patience`).
absl::StatusOr<Ended> RunToEnd(const std::vector<std::string>& command, absl::Duration patience);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PROGRAMS_PROGRAMS_H_
