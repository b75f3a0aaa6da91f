#include "common/layout/manifest.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

void AppendWord(uint64_t word, std::string& out) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(word >> shift));
}

std::string Describe(const TensorSpec& tensor) {
  return absl::StrCat(tensor.name, " [", absl::StrJoin(tensor.shape, ", "), "]");
}

}  // namespace

absl::Status Validate(const Manifest& manifest) {
  if (manifest.tensors.empty()) {
    return InvalidArgument("manifest: got no tensors, wanted at least one");
  }
  if (manifest.tensors.size() > kManifestTensorsMax) {
    return InvalidArgument("manifest: got ", manifest.tensors.size(), " tensors, wanted at most ",
                           kManifestTensorsMax);
  }
  std::unordered_set<std::string_view> names;
  int64_t total = 0;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorSpec& tensor = manifest.tensors[i];
    if (tensor.name.empty()) {
      return InvalidArgument("manifest: tensor ", i, ": got an empty name, wanted one");
    }
    // Names go into messages and into the header of a file of weights, which both refuse others.
    if (FindInvalidUtf8(tensor.name) != std::string::npos) {
      return InvalidArgument("manifest: tensor ", i, ": got the name ", Quotable(tensor.name),
                             ", wanted UTF-8");
    }
    if (!names.insert(tensor.name).second) {
      return InvalidArgument("manifest: tensor ", i, ": got the name ", tensor.name,
                             " a second time, wanted each name once");
    }
    int64_t elements = 1;
    for (int64_t dimension : tensor.shape) {
      if (dimension < 1) {
        return InvalidArgument("manifest: tensor ", i, ": got ", Describe(tensor),
                               ", wanted dimensions of at least 1");
      }
      if (dimension > kManifestParametersMax / elements) {
        return InvalidArgument("manifest: tensor ", i, ": got ", Describe(tensor),
                               ", wanted at most ", kManifestParametersMax, " elements");
      }
      elements *= dimension;
    }
    total += elements;  // No overflow: at most 2^16 tensors of 2^40 elements.
  }
  if (total > kManifestParametersMax) {
    return InvalidArgument("manifest: got ", total, " parameters, wanted at most ",
                           kManifestParametersMax);
  }
  return absl::OkStatus();
}

uint64_t HashOf(const Manifest& manifest) {
  // Each length precedes what it counts, so that no two manifests give one string.
  std::string bytes;
  AppendWord(manifest.tensors.size(), bytes);
  for (const TensorSpec& tensor : manifest.tensors) {
    AppendWord(tensor.name.size(), bytes);
    bytes += tensor.name;
    AppendWord(tensor.shape.size(), bytes);
    for (int64_t dimension : tensor.shape) AppendWord(static_cast<uint64_t>(dimension), bytes);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

int64_t ElementCount(const TensorSpec& tensor) {
  int64_t count = 1;
  for (int64_t dimension : tensor.shape) count *= dimension;
  return count;
}

int64_t ParameterCount(const Manifest& manifest) {
  int64_t count = 0;
  for (const TensorSpec& tensor : manifest.tensors) count += ElementCount(tensor);
  return count;
}

std::string FirstDifference(const Manifest& got, const Manifest& wanted) {
  const size_t count = std::max(got.tensors.size(), wanted.tensors.size());
  for (size_t i = 0; i < count; ++i) {
    const bool in_got = i < got.tensors.size();
    const bool in_wanted = i < wanted.tensors.size();
    if (in_got && in_wanted && got.tensors[i] == wanted.tensors[i]) continue;
    return absl::StrCat("tensor ", i, ": got ", in_got ? Describe(got.tensors[i]) : "none",
                        ", wanted ", in_wanted ? Describe(wanted.tensors[i]) : "none");
  }
  return "";
}

}  // namespace longwave
