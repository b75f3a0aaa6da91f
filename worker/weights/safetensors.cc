#include "worker/weights/safetensors.h"

#include <bit>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "worker/weights/shallow_json.h"

namespace longwave {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr size_t kAlignment = 8;
// Limit of a read header, above the tensor names of any model.
constexpr uint64_t kHeaderBytesMax = uint64_t{64} << 20;

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

template <typename... Parts>
absl::Status Unfit(const std::string& path, const Parts&... why) {
  return InvalidArgument(path, ": ", why...);
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
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  if (!file || header_bytes > kHeaderBytesMax) {
    return Unfit(path, "got no safetensors header; wanted a file of a worker's weights");
  }
  std::string text(header_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const nlohmann::json header = ParseShallowJson(text);
  if (!file || !header.is_object()) return Unfit(path, "its safetensors header is not whole");

  std::error_code error;
  const uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) return Unfit(path, error.message());

  std::vector<float> flat(layout.parameter_count());
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorSpec& tensor = manifest.tensors[i];
    const auto found = header.find(tensor.name);
    if (found == header.end()) return Unfit(path, "has no tensor ", tensor.name);
    const uint64_t bytes = static_cast<uint64_t>(ElementCount(tensor)) * sizeof(float);
    const nlohmann::json wanted = {{"dtype", "F32"}, {"shape", tensor.shape}};
    const auto offsets = found->find("data_offsets");
    const bool fits = found->is_object() && found->value("dtype", nlohmann::json()) == "F32" &&
                      found->value("shape", nlohmann::json()) == wanted["shape"] &&
                      offsets != found->end() && offsets->is_array() && offsets->size() == 2 &&
                      (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned() &&
                      (*offsets)[0].get<uint64_t>() <= file_bytes &&
                      (*offsets)[1].get<uint64_t>() - (*offsets)[0].get<uint64_t>() == bytes;
    if (!fits) {
      return Unfit(path, "tensor ", tensor.name, ": got ", found->dump(), ", wanted ",
                   wanted.dump());
    }
    file.seekg(static_cast<std::streamoff>(sizeof(header_bytes) + header_bytes +
                                           (*offsets)[0].get<uint64_t>()));
    file.read(reinterpret_cast<char*>(flat.data() + layout.flat_offset(i)),
              static_cast<std::streamsize>(bytes));
    if (!file) return Unfit(path, "ends before tensor ", tensor.name, " does");
  }
  if (const size_t tensors = header.size() - header.count("__metadata__");
      tensors != manifest.tensors.size()) {
    return Unfit(path, "got ", tensors, " tensors, wanted the ", manifest.tensors.size(),
                 " of the model");
  }
  return flat;
}

}  // namespace longwave
