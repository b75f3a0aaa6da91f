#include "worker/trainer/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

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

// A file under construction; removed unless it was completed.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path),
        temporary_(absl::StrCat(path, ".tmp.", ::getpid())),
        fd_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}
  ~NewFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    if (!complete_) ::unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Open() const { return fd_ < 0 ? Error("create") : absl::OkStatus(); }

  absl::Status Write(const void* data, size_t size) {
    const char* at = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::write(fd_, at, size);
      if (written < 0) {
        if (errno == EINTR) continue;
        return Error("write");
      }
      at += written;
      size -= static_cast<size_t>(written);
    }
    return absl::OkStatus();
  }

  // The rename is durable once the folder that holds the name is.
  absl::Status Complete() {
    if (::fsync(fd_) != 0) return Error("fsync");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return Error("rename");
    complete_ = true;
    const std::string folder = std::filesystem::path(path_).parent_path().string();
    const int folder_fd =
        ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0) return Error("open the folder of");
    const int result = ::fsync(folder_fd);
    ::close(folder_fd);
    return result == 0 ? absl::OkStatus() : Error("fsync the folder of");
  }

 private:
  absl::Status Error(const char* what) const {
    return absl::ErrnoToStatus(errno, absl::StrCat("model file: can't ", what, " ", path_));
  }

  const std::string path_;
  const std::string temporary_;
  const int fd_;
  bool complete_ = false;
};

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const Manifest& manifest,
                              const Layout& layout, const float* theta,
                              const std::map<std::string, std::string>& metadata) {
  const std::string header = Header(manifest, metadata);
  const uint64_t header_size = header.size();
  NewFile file(path);
  LONGWAVE_RETURN_IF_ERROR(file.Open());
  LONGWAVE_RETURN_IF_ERROR(file.Write(&header_size, sizeof(header_size)));
  LONGWAVE_RETURN_IF_ERROR(file.Write(header.data(), header.size()));
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const auto count = static_cast<size_t>(ElementCount(manifest.tensors[i]));
    LONGWAVE_RETURN_IF_ERROR(file.Write(theta + layout.flat_offset(i), count * sizeof(float)));
  }
  return file.Complete();
}

}  // namespace longwave
