#include "worker/weights/write_model.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "worker/weights/gpt2_config.h"
#include "worker/weights/safetensors.h"

namespace longwave {

absl::Status WriteModel(const std::string& path, const RunConfig& config, const Manifest& manifest,
                        const Layout& layout, const float* theta, uint64_t steps) {
  const std::filesystem::path name(path);
  if (config.model.kind == "gpt" && name.filename() == "model.safetensors") {
    const std::string text = Gpt2Config(config.model);
    LONGWAVE_RETURN_IF_ERROR(WriteFile((name.parent_path() / "config.json").string(), text));
  }
  return WriteSafetensors(
      path, manifest, layout, theta,
      {{"format", "pt"},  // the name in torch's own tools, for readers that require it
       {"longwave.preset", config.run.preset},
       {"longwave.model", config.model.kind},
       {"longwave.heads", absl::StrCat(config.model.heads)},
       {"longwave.steps", absl::StrCat(steps)}});
}

}  // namespace longwave
