#include "worker/data/data_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

constexpr char kHeaderRoot[] = "/usr/include/c++";

// The folder of the newest compiler. Versions are compared as numbers.
absl::StatusOr<std::string> NewestHeaders() {
  std::error_code error;
  std::string newest;
  int newest_version = -1;
  for (const fs::directory_entry& entry : fs::directory_iterator(kHeaderRoot, error)) {
    int version = 0;
    std::error_code ignored;
    if (entry.is_directory(ignored) &&
        absl::SimpleAtoi(entry.path().filename().string(), &version) && version > newest_version) {
      newest_version = version;
      newest = entry.path().string();
    }
  }
  if (newest.empty()) {
    return NotFound("data: no compiler's headers under ", kHeaderRoot, "; wanted a folder such as ",
                    kHeaderRoot, "/12, or data.path naming a file or folder");
  }
  return newest;
}

// The regular files under `root`, unordered. Links to folders are not followed, since they may form
// a cycle.
absl::StatusOr<std::vector<std::string>> FilesUnder(const std::string& root) {
  std::vector<std::string> files, folders = {root};
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    std::error_code error;
    for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      std::error_code ignored;
      // Kubernetes mounts a ConfigMap as links into a folder "..data" beside them.
      if (absl::StartsWith(it->path().filename().string(), "..")) continue;
      if (it->is_regular_file(ignored)) {
        files.push_back(it->path().string());
      } else if (fs::is_directory(it->symlink_status(ignored))) {
        folders.push_back(it->path().string());
      }
    }
    if (error) return FileError(folder, error);
  }
  return files;
}

// The regular files that match a pattern.
std::vector<std::string> Matches(const std::string& pattern) {
  std::vector<std::string> files;
  glob_t found = {};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      std::error_code ignored;
      if (fs::is_regular_file(found.gl_pathv[i], ignored)) files.emplace_back(found.gl_pathv[i]);
    }
  }
  ::globfree(&found);
  std::ranges::sort(files);
  return files;
}

}  // namespace

absl::Status FileError(const std::string& path, const std::error_code& error) {
  std::string text = absl::StrCat("data: ", path, ": ", error.message());
  if (error == std::errc::no_such_file_or_directory) return NotFound(text);
  if (error == std::errc::permission_denied) return PermissionDenied(text);
  return DataLoss(text);
}

absl::StatusOr<std::vector<std::string>> DataFiles(const std::string& path) {
  std::string root = path;
  if (path == kCompilerHeaders) {
    LONGWAVE_ASSIGN_OR_RETURN(root, NewestHeaders());
  }
  static constexpr absl::string_view kWanted = "wanted a file, a folder or ";
  if (root.empty()) {
    return InvalidArgument("data: got an empty path, ", kWanted, kCompilerHeaders);
  }
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found) {
    std::vector<std::string> matches = Matches(root);
    if (!matches.empty()) return matches;
    return NotFound("data: ", root, " does not exist; ", kWanted, kCompilerHeaders);
  }
  if (!fs::status_known(status)) return FileError(root, error);
  if (fs::is_regular_file(status)) return std::vector<std::string>{root};
  // A device or a pipe has no size, and reading it may never end.
  if (!fs::is_directory(status)) {
    return InvalidArgument("data: ", root, " is not a file or folder; ", kWanted, kCompilerHeaders);
  }
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesUnder(root));
  std::ranges::sort(files);
  return files;
}

}  // namespace longwave
