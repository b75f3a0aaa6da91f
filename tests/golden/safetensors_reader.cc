#include "tests/golden/safetensors_reader.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace longwave {

absl::StatusOr<GoldenFile> ReadSafetensors(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  uint64_t header_size = 0;
  if (bytes.size() < sizeof(header_size)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": got ", bytes.size(), " bytes"));
  }
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  if (header_size > bytes.size() - sizeof(header_size)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": header of ", header_size, " bytes"));
  }
  const size_t data = sizeof(header_size) + header_size;
  GoldenFile file;
  const nlohmann::json header = nlohmann::json::parse(
      bytes.begin() + sizeof(header_size), bytes.begin() + static_cast<std::ptrdiff_t>(data));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    if (entry.at("dtype") != "F32") {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", name, ": wanted F32"));
    }
    GoldenTensor tensor;
    tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
    const auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
    if (data + offsets.at(1) > bytes.size() || offsets.at(0) > offsets.at(1)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", name, ": outside the file"));
    }
    tensor.values.resize((offsets[1] - offsets[0]) / sizeof(float));
    std::memcpy(tensor.values.data(), bytes.data() + data + offsets[0], offsets[1] - offsets[0]);
    file.tensors.emplace(name, std::move(tensor));
  }
  return file;
}

}  // namespace longwave
