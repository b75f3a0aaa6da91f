#ifndef LONGWAVE_CLI_JOIN_OWN_FOLDER_H_
#define LONGWAVE_CLI_JOIN_OWN_FOLDER_H_

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"

namespace longwave {

// The folder of this program, in which the others lie.
inline absl::StatusOr<std::string> OwnFolder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError("cannot find this program's own folder by /proc/self/exe");
  return self.parent_path().string();
}

}  // namespace longwave

#endif  // LONGWAVE_CLI_JOIN_OWN_FOLDER_H_
