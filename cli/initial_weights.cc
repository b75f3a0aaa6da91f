#include "cli/initial_weights.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
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
  std::string path = (std::filesystem::temp_directory_path() / "longwave-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make a folder ", path));
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

absl::StatusOr<std::string> MakeInitialWeights(const std::string& config_file,
                                               const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string binaries, OwnFolder());
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
