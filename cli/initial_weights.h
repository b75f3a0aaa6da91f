#ifndef LONGWAVE_CLI_INITIAL_WEIGHTS_H_
#define LONGWAVE_CLI_INITIAL_WEIGHTS_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace longwave {

// A temporary folder for its owner alone; the destructor removes it.
class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Make();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// The weights that every worker of a run draws from its seed, made by longwave-worker: a
// safetensors file in `folder`. Errors: Aborted, with the worker's sentence.
absl::StatusOr<std::string> MakeInitialWeights(const std::string& config_file,
                                               const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_INITIAL_WEIGHTS_H_
