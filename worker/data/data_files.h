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
// files below it whose names and folders are not hidden; a shell pattern with *, ? or [; or
// kCompilerHeaders, the newest folder under /usr/include/c++.
//   left_out  gets "PATH: why" for each entry of a folder that is not read; null: nobody is told
// NotFound: no match, with a hint at what the path may have meant. InvalidArgument: an empty path,
// a device, a pipe.
absl::StatusOr<std::vector<std::string>> DataFiles(const std::string& path,
                                                   std::vector<std::string>* left_out = nullptr);

// Of several files, which are all named by their part of a data set, those to validate with: the
// last of the words train, val, valid, validation and test in a path is the part's. They are
// removed from `files`, and those to test with, too. Empty, and `files` as they were: some file has
// no such name, or no file is of one of the first two parts.
std::vector<std::string> TakeHeldOut(std::vector<std::string>* files,
                                     std::vector<std::string>* left_out);

// NotFound, PermissionDenied or DataLoss, with the file's name.
absl::Status FileError(const std::string& path, const std::error_code& error);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_DATA_FILES_H_
