#ifndef LONGWAVE_WORKER_WEIGHTS_WEIGHTS_FILE_H_
#define LONGWAVE_WORKER_WEIGHTS_WEIGHTS_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"

namespace longwave {

// Reads a model's weights from a safetensors file (F32, as a worker writes them) into a flat array
// in the layout's order. File errors as NotFound. InvalidArgument: another format or another model;
// the message names the tensor.
absl::StatusOr<std::vector<float>> ReadWeights(const std::string& path, const Manifest& manifest,
                                               const Layout& layout);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_WEIGHTS_WEIGHTS_FILE_H_
