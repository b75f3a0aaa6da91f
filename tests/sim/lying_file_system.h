#ifndef LONGWAVE_TESTS_SIM_LYING_FILE_SYSTEM_H_
#define LONGWAVE_TESTS_SIM_LYING_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tests/sim/canary.h"
#include "tests/support/wrapped_file_system.h"

namespace longwave::sim {

// A file system with a canary of the disk; otherwise it forwards.
class LyingFileSystem final : public WrappedFileSystem {
 public:
  LyingFileSystem(FileSystem* files, Canary canary) : WrappedFileSystem(files), canary_(canary) {}

  absl::Status Remove(const std::string& path) override;

 private:
  class Writable;
  std::unique_ptr<WritableFile> Wrap(const std::string& path,
                                     std::unique_ptr<WritableFile> file) override;

  const Canary canary_;
  uint64_t log_writes_ = 0;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_LYING_FILE_SYSTEM_H_
