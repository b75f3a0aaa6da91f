#ifndef LONGWAVE_WORKER_DATA_DATA_FILES_H_
#define LONGWAVE_WORKER_DATA_DATA_FILES_H_

#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

// The value of data.path for the C++ headers of this machine's compiler.
inline constexpr char kCompilerHeaders[] = "compiler-headers";

// The files that a configured path denotes, ordered by path: a file; a folder, with all regular
// files below it; a shell pattern with *, ? or [; or kCompilerHeaders, the newest folder under
// /usr/include/c++. NotFound: no match. InvalidArgument: an empty path, a device, a pipe.
absl::StatusOr<std::vector<std::string>> DataFiles(const std::string& path);

// NotFound, PermissionDenied or DataLoss, with the file's name.
absl::Status FileError(const std::string& path, const std::error_code& error);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_DATA_FILES_H_
