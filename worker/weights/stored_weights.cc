#include "worker/weights/stored_weights.h"

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "worker/weights/shallow_json.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

// Limit of a read header, above the tensor names of any model.
constexpr uint64_t kHeaderBytesMax = uint64_t{64} << 20;
constexpr std::string_view kIndexEnding = ".index.json";
constexpr std::string_view kPrefix = "transformer.";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "wte.weight";

template <typename... Parts>
absl::Status Unfit(const std::string& path, const Parts&... why) {
  return InvalidArgument(path, ": ", why...);
}

// The value of an IEEE 754 half.
float FromHalf(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const auto fraction = static_cast<float>(half & 1023);
  const float size = exponent == 31  ? (fraction == 0 ? HUGE_VALF : NAN)
                     : exponent == 0 ? std::ldexp(fraction, -24)
                                     : std::ldexp(fraction + 1024, exponent - 25);
  return (half >> 15) != 0 ? -size : size;
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// The weights in a folder: transformers name them so.
absl::StatusOr<std::string> FileIn(const std::string& folder) {
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
    std::string file = (fs::path(folder) / name).string();
    std::error_code ignored;
    if (fs::exists(file, ignored)) return file;
  }
  return NotFound(folder, ": got a folder without model.safetensors, wanted one that ",
                  "save_pretrained(FOLDER, safe_serialization=True) wrote, or a file");
}

// The files that an index names, beside it.
absl::StatusOr<std::set<std::string>> FilesOfIndex(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  const nlohmann::json index = ParseShallowJson(file);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object())
    return Unfit(path, "got no index of safetensors files, wanted one with a weight_map");
  std::set<std::string> files;
  for (const auto& [tensor, name] : map->items()) {
    if (!name.is_string() || name.get<std::string>().find('/') != std::string::npos) {
      return Unfit(path, "tensor ", Quotable(tensor), ": got ", Quotable(name.dump()),
                   ", wanted the name of a file beside the index");
    }
    files.insert((fs::path(path).parent_path() / name.get<std::string>()).string());
  }
  return files;
}

}  // namespace

absl::StatusOr<StoredWeights> StoredWeights::Open(const std::string& path) {
  StoredWeights stored;
  stored.path_ = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    LONGWAVE_ASSIGN_OR_RETURN(stored.path_, FileIn(path));
  }
  std::set<std::string> files = {stored.path_};
  if (stored.path_.ends_with(kIndexEnding)) {
    LONGWAVE_ASSIGN_OR_RETURN(files, FilesOfIndex(stored.path_));
  }
  for (const std::string& name : files) {
    auto file = std::make_unique<std::ifstream>(name, std::ios::binary);
    if (!*file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", name));
    const uint64_t bytes = fs::file_size(name, error);
    if (error) return Unfit(name, error.message());
    LONGWAVE_RETURN_IF_ERROR(stored.Add(name, std::move(file), bytes));
  }
  return stored;
}

absl::Status StoredWeights::Add(const std::string& path, std::unique_ptr<std::istream> file,
                                uint64_t bytes) {
  uint64_t header_bytes = 0;
  file->read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  if (!*file || header_bytes > kHeaderBytesMax) {
    return Unfit(path, "got no safetensors header; wanted a file of a worker's weights");
  }
  if (header_bytes > bytes - sizeof(header_bytes))
    return Unfit(path, "its safetensors header is not whole");
  std::string text(header_bytes, '\0');
  file->read(text.data(), static_cast<std::streamsize>(text.size()));
  const nlohmann::json header = ParseShallowJson(text);
  if (!*file || !header.is_object()) return Unfit(path, "its safetensors header is not whole");
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string_view own = name;
    const bool has_prefix = own.starts_with(kPrefix);
    const bool is_new = tensors_
                            .try_emplace(std::string(has_prefix ? own.substr(kPrefix.size()) : own),
                                         Tensor{.file = file.get(),
                                                .file_bytes = bytes,
                                                .data_begin = sizeof(header_bytes) + header_bytes,
                                                .entry = entry,
                                                .path = path})
                            .second;
    if (!is_new) return Unfit(path, "tensor ", Quotable(name), " is there twice");
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status StoredWeights::ReadTensor(const Tensor& tensor, const TensorSpec& wanted,
                                       float* values) const {
  const auto count = static_cast<size_t>(ElementCount(wanted));
  const nlohmann::json& entry = tensor.entry;
  const nlohmann::json dtype =
      entry.is_object() ? entry.value("dtype", nlohmann::json()) : nlohmann::json();
  const uint64_t width = dtype == "F32" ? sizeof(float) : sizeof(uint16_t);
  const bool has_type = dtype == "F32" || dtype == "F16" || dtype == "BF16";
  const auto offsets = entry.is_object() ? entry.find("data_offsets") : entry.end();
  const bool fits = has_type &&
                    entry.value("shape", nlohmann::json()) == nlohmann::json(wanted.shape) &&
                    offsets != entry.end() && offsets->is_array() && offsets->size() == 2 &&
                    (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned() &&
                    (*offsets)[0].get<uint64_t>() <= tensor.file_bytes &&
                    (*offsets)[1].get<uint64_t>() - (*offsets)[0].get<uint64_t>() == count * width;
  if (!fits) {
    const nlohmann::json shape = {{"dtype", "F32, F16 or BF16"}, {"shape", wanted.shape}};
    return Unfit(tensor.path, "tensor ", wanted.name, ": got ", Quotable(entry.dump()), ", wanted ",
                 shape.dump());
  }
  tensor.file->clear();
  tensor.file->seekg(
      static_cast<std::streamoff>(tensor.data_begin + (*offsets)[0].get<uint64_t>()));
  if (width == sizeof(float)) {
    tensor.file->read(reinterpret_cast<char*>(values), static_cast<std::streamsize>(count * width));
  } else {
    std::vector<uint16_t> narrow(count);
    tensor.file->read(reinterpret_cast<char*>(narrow.data()),
                      static_cast<std::streamsize>(count * width));
    const auto convert = dtype == "F16" ? FromHalf : FromBf16;
    for (size_t i = 0; i < count; ++i) values[i] = convert(narrow[i]);
  }
  if (!*tensor.file) return Unfit(tensor.path, "ends before tensor ", wanted.name, " does");
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(values[i])) continue;
    return Unfit(tensor.path, "tensor ", wanted.name, ": element ", i, " is ", values[i],
                 ", wanted a finite number");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> StoredWeights::Read(const Manifest& manifest,
                                                       const Layout& layout) {
  std::vector<float> flat(layout.parameter_count());
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorSpec& tensor = manifest.tensors[i];
    const auto found = tensors_.find(tensor.name);
    if (found == tensors_.end()) return Unfit(path_, "has no tensor ", tensor.name);
    LONGWAVE_RETURN_IF_ERROR(
        ReadTensor(found->second, tensor, flat.data() + layout.flat_offset(i)));
  }
  LONGWAVE_RETURN_IF_ERROR(CheckRest(manifest, layout, flat));
  return flat;
}

absl::Status StoredWeights::CheckRest(const Manifest& manifest, const Layout& layout,
                                      const std::vector<float>& flat) const {
  std::set<std::string_view> known;
  for (const TensorSpec& tensor : manifest.tensors) known.insert(tensor.name);
  for (const auto& [name, tensor] : tensors_) {
    if (known.contains(name)) continue;
    // A mask of which tokens come before which, and the value for the others.
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) continue;
    if (name != kHead || !known.contains(kEmbedding)) {
      return Unfit(tensor.path, "got tensor ", Quotable(name), ", wanted those of the model alone");
    }
    size_t i = 0;
    while (manifest.tensors[i].name != kEmbedding) ++i;
    const TensorSpec head = {kHead, manifest.tensors[i].shape};
    std::vector<float> values(static_cast<size_t>(ElementCount(head)));
    LONGWAVE_RETURN_IF_ERROR(ReadTensor(tensor, head, values.data()));
    if (std::memcmp(values.data(), flat.data() + layout.flat_offset(i),
                    values.size() * sizeof(float)) != 0) {
      return Unfit(tensor.path, "tensor ", kHead,
                   ": got a head of its own, wanted that of the "
                   "model, which is ",
                   kEmbedding);
    }
  }
  return absl::OkStatus();
}

}  // namespace longwave
