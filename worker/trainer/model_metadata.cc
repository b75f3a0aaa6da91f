#include "worker/trainer/model_metadata.h"

#include "absl/strings/str_cat.h"

namespace longwave {

std::map<std::string, std::string> ModelMetadata(const RunConfig& config, uint64_t steps) {
  return {{"format", "pt"},  // as torch's own tools name it, for those that ask
          {"longwave.preset", config.run.preset},
          {"longwave.model", config.model.kind},
          {"longwave.heads", absl::StrCat(config.model.heads)},
          {"longwave.steps", absl::StrCat(steps)}};
}

}  // namespace longwave
