#ifndef LONGWAVE_CLI_INITIAL_WEIGHTS_H_
#define LONGWAVE_CLI_INITIAL_WEIGHTS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/termination.h"

namespace longwave {

// A temporary folder for its owner alone. The destructor removes it, and so does a signal that ends
// the program. One at a time.
class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Make();
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, "")), removal_(std::move(other.removal_)) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path);

  std::string path_;
  std::unique_ptr<Termination> removal_;
};

// The weights that every worker of a run draws from its seed, made by longwave-worker: a
// safetensors file in `folder`. Errors: Aborted, with the worker's sentence.
absl::StatusOr<std::string> MakeInitialWeights(const std::string& config_file,
                                               const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_INITIAL_WEIGHTS_H_
