#include "worker/weights/safetensors.h"

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "worker/weights/stored_weights.h"

namespace longwave {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr size_t kAlignment = 8;

std::string Header(const Manifest& manifest, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorSpec& tensor : manifest.tensors) {
    const uint64_t end = offset + static_cast<uint64_t>(ElementCount(tensor)) * sizeof(float);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const Manifest& manifest,
                              const Layout& layout, const float* theta,
                              const std::map<std::string, std::string>& metadata) {
  const std::string header = Header(manifest, metadata);
  const uint64_t header_size = header.size();
  NewFile file(path);
  LONGWAVE_RETURN_IF_ERROR(file.Write(&header_size, sizeof(header_size)));
  LONGWAVE_RETURN_IF_ERROR(file.Write(header.data(), header.size()));
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const auto count = static_cast<size_t>(ElementCount(manifest.tensors[i]));
    LONGWAVE_RETURN_IF_ERROR(file.Write(theta + layout.flat_offset(i), count * sizeof(float)));
  }
  return file.Complete();
}

absl::StatusOr<std::vector<float>> ReadWeights(const std::string& path, const Manifest& manifest,
                                               const Layout& layout) {
  LONGWAVE_ASSIGN_OR_RETURN(StoredWeights stored, StoredWeights::Open(path));
  return stored.Read(manifest, layout);
}

}  // namespace longwave
