#include "worker/models/model_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace longwave {

absl::Status CheckModelFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("model.file: got ", path,
                   ", which is no file on this machine, wanted a TorchScript module's (--set "
                   "model.file=PATH names it where it is)"));
}

}  // namespace longwave
