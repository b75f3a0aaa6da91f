#include "worker/data/data_files.h"

#include <glob.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
absl::StatusOr<std::vector<std::string>> FilesUnder(const std::string& root,
                                                    std::vector<std::string>* left_out) {
  std::vector<std::string> files, folders = {root};
  const auto leave_out = [&](const fs::directory_entry& entry, const char* why) {
    if (left_out != nullptr) left_out->push_back(absl::StrCat(entry.path().string(), ": ", why));
  };
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    std::error_code error;
    for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      std::error_code ignored;
      const std::string name = it->path().filename().string();
      // Kubernetes mounts a ConfigMap as links into a folder "..data" beside them.
      if (absl::StartsWith(name, "..")) continue;
      if (absl::StartsWith(name, ".")) {
        leave_out(*it, "a hidden name");
      } else if (it->is_regular_file(ignored)) {
        files.push_back(it->path().string());
      } else if (fs::is_directory(it->symlink_status(ignored))) {
        folders.push_back(it->path().string());
      } else if (it->is_directory(ignored)) {
        leave_out(*it, "a link to a folder");
      } else {
        leave_out(*it, it->is_symlink(ignored) ? "a link to no file" : "no file");
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

// The end of the sentence about a path that is not there: how to have what it seems to mean.
std::string HintAt(const std::string& path) {
  if (path == "-") return "; standard input has no size and can be read once only: make it a file";
  if (absl::StartsWith(path, "~"))
    return "; a shell replaces ~ only where it begins an unquoted word: give the whole path";
  if (const size_t scheme = path.find(":/"); scheme != std::string::npos) {
    const bool is_web = absl::StartsWith(path, "http");
    return absl::StrCat("; a worker opens no URL: bring the data to this machine first, as by ",
                        is_web ? "curl -LO" : "rclone copy", ", and name the file or folder");
  }
  std::error_code ignored;
  if (fs::is_regular_file(path + ".bin", ignored)) return absl::StrCat("; there is ", path, ".bin");
  const bool is_name = std::ranges::count(path, '/') == 1 && path.front() != '/' &&
                       path.back() != '/' && path.front() != '.' &&
                       path.find_first_of("*?[ ") == std::string::npos;
  if (!is_name) return "";
  return absl::StrCat("; if it is a data set of the Hugging Face hub: hf download ", path,
                      " --repo-type dataset --local-dir FOLDER");
}

enum class Part : uint8_t { kNone, kTrain, kValidation, kTest };

// path: below the folder that all files have in common
Part PartOf(absl::string_view path) {
  static constexpr std::pair<absl::string_view, Part> kWords[] = {{"train", Part::kTrain},
                                                                  {"val", Part::kValidation},
                                                                  {"valid", Part::kValidation},
                                                                  {"validation", Part::kValidation},
                                                                  {"test", Part::kTest}};
  Part part = Part::kNone;
  for (const absl::string_view each : absl::StrSplit(path, absl::ByAnyChar("/._- "))) {
    for (const auto& [word, its] : kWords) part = each == word ? its : part;
  }
  return part;
}

}  // namespace

absl::Status FileError(const std::string& path, const std::error_code& error) {
  std::string text = absl::StrCat("data: ", path, ": ", error.message());
  if (error == std::errc::no_such_file_or_directory) return NotFound(text);
  if (error == std::errc::permission_denied) return PermissionDenied(text);
  return DataLoss(text);
}

std::vector<std::string> TakeHeldOut(std::vector<std::string>* files,
                                     std::vector<std::string>* left_out) {
  if (files->size() < 2) return {};
  const std::string &first = files->front(), &last = files->back();  // in the order of paths
  const auto differ = std::ranges::mismatch(first, last).in1;
  const size_t shared = first.rfind('/', static_cast<size_t>(differ - first.begin())) + 1;
  const auto part_of = [&](const std::string& file) {
    return PartOf(absl::string_view(file).substr(shared));
  };
  const auto has = [&](Part part) {
    return std::ranges::any_of(*files, [&](const auto& file) { return part_of(file) == part; });
  };
  if (has(Part::kNone) || !has(Part::kTrain) || !has(Part::kValidation)) return {};
  std::vector<std::string> held_out, train;
  for (std::string& file : *files) {
    const Part part = part_of(file);
    if (part == Part::kTest) {
      left_out->push_back(absl::StrCat(file, ": named as test data"));
    } else {
      (part == Part::kTrain ? train : held_out).push_back(std::move(file));
    }
  }
  *files = std::move(train);
  return held_out;
}

absl::StatusOr<std::vector<std::string>> DataFiles(const std::string& path,
                                                   std::vector<std::string>* left_out) {
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
    return NotFound("data: ", root, " does not exist; ", kWanted, kCompilerHeaders, HintAt(root));
  }
  if (!fs::status_known(status)) return FileError(root, error);
  if (fs::is_regular_file(status)) return std::vector<std::string>{root};
  // A device or a pipe has no size, and reading it may never end.
  if (!fs::is_directory(status)) {
    return InvalidArgument("data: ", root, " is not a file or folder; ", kWanted, kCompilerHeaders);
  }
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesUnder(root, left_out));
  std::ranges::sort(files);
  if (left_out != nullptr) std::ranges::sort(*left_out);
  return files;
}

}  // namespace longwave
