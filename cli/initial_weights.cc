#include "cli/initial_weights.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/process.h"
#include "cli/programs/programs.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// Enough for a model of billions of parameters on a slow disk.
constexpr absl::Duration kPatience = absl::Hours(1);

}  // namespace

absl::StatusOr<TemporaryFolder> TemporaryFolder::Make() {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::temp_directory_path(error);
  if (error) {
    return NotFound("got no folder for temporary files: ", error.message(),
                    ", wanted one in TMPDIR or /tmp");
  }
  std::string path = (place / "longwave-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make a folder ", path));
  return TemporaryFolder(std::move(path));
}

namespace {

void Remove(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

TemporaryFolder::TemporaryFolder(std::string path)
    : path_(std::move(path)),
      removal_(std::make_unique<Termination>(
          Termination::Options{.grace = absl::ZeroDuration(),
                               .on_signal = [path = path_] { Remove(path); },
                               .on_overdue = [] {},
                               .overdue_status = std::nullopt})) {}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) Remove(path_);
}

absl::StatusOr<std::string> MakeInitialWeights(const std::string& config_file,
                                               const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string binaries, WorkerFolder());
  std::string file = folder + "/initial.safetensors";
  LONGWAVE_ASSIGN_OR_RETURN(
      const Ended ended, RunToEnd({binaries + "/longwave-worker", "--config", config_file, "--name",
                                   "initial", "--device", "cpu", "--write-initial", file},
                                  kPatience));
  if (ended.well) return file;
  const std::string sentence = LastErrorLine(ended.output);
  return Aborted("longwave-worker: ", sentence.empty() ? ended.output : sentence);
}

}  // namespace longwave
