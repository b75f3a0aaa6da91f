#include "cli/preflight.h"

#include "common/base/status_macros.h"
#include "common/config/gpt_shape.h"
#include "common/layout/layout.h"
#include "worker/data/corpus.h"

namespace longwave {
namespace {

// A table of tiles for more parameters takes long. The worker, which needs the table anyway and
// checks its memory first, reports the error.
constexpr double kParametersLaidOutMax = 1e9;

}  // namespace

absl::Status CheckRun(const RunConfig& config) {
  LONGWAVE_RETURN_IF_ERROR(CheckCorpus(config.data, config.model));
  if (GptParameterCount(config.model) > kParametersLaidOutMax) return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(const Manifest manifest, GptManifest(config.model));
  return Layout::Create(manifest, LayoutOptionsFor(config, manifest)).status();
}

}  // namespace longwave
