#include "cli/preflight.h"

#include "common/base/status_macros.h"
#include "common/config/model_shape.h"
#include "common/layout/layout.h"
#include "worker/data/dataset.h"
#include "worker/models/model_file.h"

namespace longwave {
namespace {

// A table of tiles for more parameters takes long. The worker, which needs the table anyway and
// checks its memory first, reports the error.
constexpr double kParametersLaidOutMax = 1e9;

}  // namespace

absl::Status CheckRun(const RunConfig& config) {
  LONGWAVE_RETURN_IF_ERROR(CheckDataset(config.data, config.model));
  if (config.model.kind == "file") return CheckModelFile(config.model.file);
  if (ModelParameterCount(config.model) > kParametersLaidOutMax) return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(const Manifest manifest, ModelManifest(config.model));
  return Layout::Create(manifest, LayoutOptionsFor(config, manifest)).status();
}

}  // namespace longwave
