#ifndef LONGWAVE_COMMON_LAYOUT_MANIFEST_H_
#define LONGWAVE_COMMON_LAYOUT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/fields.h"

namespace longwave {

// A trained tensor of the model: its name in the model and its shape. fp32 on every replica.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  LONGWAVE_FIELDS(name, shape)

  bool operator==(const TensorSpec&) const = default;
};

// The trained tensors in the order in which the model registers them. Every process of a run has
// the same manifest; registration compares the hashes and rejects a process with another one.
struct Manifest {
  std::vector<TensorSpec> tensors;
  LONGWAVE_FIELDS(tensors)

  bool operator==(const Manifest&) const = default;
};

inline constexpr size_t kManifestTensorsMax = 1 << 16;
inline constexpr int64_t kManifestParametersMax = int64_t{1} << 40;

// Errors: InvalidArgument (no tensors, too many, a name empty or given twice, a dimension below 1,
// more than kManifestParametersMax parameters).
absl::Status Validate(const Manifest& manifest);

// XXH3-64 over names and shapes in order. Equal manifests have equal hashes.
uint64_t HashOf(const Manifest& manifest);

int64_t ElementCount(const TensorSpec& tensor);
int64_t ParameterCount(const Manifest& manifest);

// The first difference, for errors: "tensor 3: got h.0.attn.w [96, 288], wanted h.0.attn.w [96,
// 384]". Empty if equal.
std::string FirstDifference(const Manifest& got, const Manifest& wanted);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LAYOUT_MANIFEST_H_
