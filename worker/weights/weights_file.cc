#include "worker/weights/weights_file.h"

#include <bit>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "worker/weights/shallow_json.h"

namespace longwave {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

// Limit of the header, above the tensor names of any model.
constexpr uint64_t kHeaderBytesMax = uint64_t{64} << 20;

absl::Status Unfit(const std::string& path, absl::string_view why) {
  return InvalidArgument(path, ": ", why);
}

}  // namespace

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
    if (found == header.end()) return Unfit(path, absl::StrCat("has no tensor ", tensor.name));
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
      return Unfit(path, absl::StrCat("tensor ", tensor.name, ": got ", found->dump(), ", wanted ",
                                      wanted.dump()));
    }
    file.seekg(static_cast<std::streamoff>(sizeof(header_bytes) + header_bytes +
                                           (*offsets)[0].get<uint64_t>()));
    file.read(reinterpret_cast<char*>(flat.data() + layout.flat_offset(i)),
              static_cast<std::streamsize>(bytes));
    if (!file) return Unfit(path, absl::StrCat("ends before tensor ", tensor.name, " does"));
  }
  if (const size_t tensors = header.size() - header.count("__metadata__");
      tensors != manifest.tensors.size()) {
    return Unfit(path, absl::StrCat("got ", tensors, " tensors, wanted the ",
                                    manifest.tensors.size(), " of the model"));
  }
  return flat;
}

}  // namespace longwave
