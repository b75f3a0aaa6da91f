// Any bytes as a safetensors file: the weights of the model or an error, never a crash.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "worker/weights/stored_weights.h"

namespace longwave {
namespace {

void Read(const std::string& file) {
  static const Manifest manifest{{{"wte.weight", {2, 2}}, {"h.0.attn.c_attn.bias", {2}}}};
  static const Layout layout = *Layout::Create(manifest, {});
  StoredWeights stored;
  absl::Status status = stored.Add("fuzz", std::make_unique<std::istringstream>(file), file.size());
  if (status.ok()) {
    const absl::StatusOr<std::vector<float>> weights = stored.Read(manifest, layout);
    status = weights.status();
    if (status.ok()) {
      for (const float value : *weights) LONGWAVE_CHECK(std::isfinite(value));
    }
  }
  LONGWAVE_CHECK(status.ok() || !status.message().empty());
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  longwave::Read(input);
  // All of it is the header, too, and numbers behind it are there.
  const uint64_t header_bytes = size;
  std::string file(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  longwave::Read(file + input + std::string(64, '\1'));
  return 0;
}
