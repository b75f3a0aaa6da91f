#include "worker/weights/write_model.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "worker/weights/gpt2_config.h"
#include "worker/weights/safetensors.h"

namespace longwave {
namespace {

// The file beside `path` that describes the model; empty: none does.
std::string DescriptionOf(const std::string& path, const RunConfig& config) {
  const std::filesystem::path name(path);
  const bool is_described = config.model.kind == "gpt" && name.filename() == "model.safetensors";
  return is_described ? (name.parent_path() / "config.json").string() : "";
}

}  // namespace

absl::Status CheckPlace(const std::string& path, const RunConfig& config) {
  const std::string description = DescriptionOf(path, config);
  std::error_code error;
  if (description.empty() || !std::filesystem::exists(description, error)) return absl::OkStatus();
  if (std::filesystem::is_regular_file(description, error)) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    const auto described = ReadGpt2Config(folder.empty() ? "." : folder);
    if (described.ok() && Gpt2Config(*described) == Gpt2Config(config.model))
      return absl::OkStatus();
  }
  return AlreadyExists(
      description, ": got a file that does not describe the run's model, wanted ", "none where ",
      path, " is written, since it is replaced; give the weights another folder or name");
}

absl::Status WriteModel(const std::string& path, const RunConfig& config, const Manifest& manifest,
                        const Layout& layout, const float* theta, uint64_t steps) {
  LONGWAVE_RETURN_IF_ERROR(WriteSafetensors(
      path, manifest, layout, theta,
      {{"format", "pt"},  // the name in torch's own tools, for readers that require it
       {"longwave.preset", config.run.preset},
       {"longwave.model", config.model.kind},
       {"longwave.heads", absl::StrCat(config.model.heads)},
       {"longwave.steps", absl::StrCat(steps)}}));
  const std::string description = DescriptionOf(path, config);
  if (description.empty()) return absl::OkStatus();
  return WriteFile(description, Gpt2Config(config.model));
}

}  // namespace longwave
