#include "worker/models/model_file.h"

#include <filesystem>
#include <system_error>

#include "common/base/errors.h"

namespace longwave {

absl::Status CheckModelFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return absl::OkStatus();
  return NotFound("model.file: got ", path,
                  ", which is no file on this machine, wanted a TorchScript module's (--set "
                  "model.file=PATH names it where it is)");
}

}  // namespace longwave
