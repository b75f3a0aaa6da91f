#ifndef LONGWAVE_WORKER_WEIGHTS_SAFETENSORS_H_
#define LONGWAVE_WORKER_WEIGHTS_SAFETENSORS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"

namespace longwave {

// Writes the model's tensors as a safetensors file: 8 bytes with the header's length,
// little-endian; the header, JSON padded with spaces to 8 bytes; then the tensors in manifest
// order, F32. The file appears under its name once it is whole and durable.
//   theta     [layout.parameter_count()], flat as the layout orders it
//   metadata  kept under __metadata__
// Source: the format's description at github.com/huggingface/safetensors.
// Unavailable, PermissionDenied, NotFound: not writable; the message says which file and why.
absl::Status WriteSafetensors(const std::string& path, const Manifest& manifest,
                              const Layout& layout, const float* theta,
                              const std::map<std::string, std::string>& metadata);

// Reads a model's weights from such files into a flat array in the layout's order: StoredWeights
// has the forms, and the errors.
absl::StatusOr<std::vector<float>> ReadWeights(const std::string& path, const Manifest& manifest,
                                               const Layout& layout);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_WEIGHTS_SAFETENSORS_H_
