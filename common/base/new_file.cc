#include "common/base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/random_word.h"
#include "common/base/status_macros.h"

namespace longwave {

namespace {

// The file that a symbolic link names: the link stays.
std::string Target(const std::string& path) {
  constexpr int kLinksMax = 40;  // as Linux follows
  std::error_code ignored;
  std::filesystem::path target = path;
  for (int i = 0; i < kLinksMax && std::filesystem::is_symlink(target, ignored); ++i)
    target = target.parent_path() / std::filesystem::read_symlink(target, ignored);
  return target.string();
}

}  // namespace

NewFile::NewFile(const std::string& path, mode_t mode)
    : path_(Target(path)),
      temporary_(absl::StrCat(path_, ".", absl::Hex(RandomWord(), absl::kZeroPad16), ".tmp")),
      fd_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)) {
  std::error_code error;
  if (fd_.get() < 0) {
    status_ = Error(errno);
  } else if (std::filesystem::is_directory(path, error)) {
    status_ = Error(EISDIR);
  } else if (std::filesystem::exists(path, error) &&
             !std::filesystem::is_regular_file(path, error)) {
    status_ = Error(EINVAL);  // a device, as /dev/null
  }
}

NewFile::~NewFile() {
  if (fd_.get() >= 0) ::unlink(temporary_.c_str());
}

absl::Status NewFile::Write(const void* data, size_t size) {
  LONGWAVE_RETURN_IF_ERROR(status_);
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd_.get(), at, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      return Error(errno);
    }
    at += written;
    size -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

// The rename is durable after the sync of the folder.
absl::Status NewFile::Complete() {
  LONGWAVE_RETURN_IF_ERROR(status_);
  if (::fsync(fd_.get()) != 0) return Error(errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return Error(errno);
  fd_.Close();
  const std::string parent = std::filesystem::path(path_).parent_path().string();
  const Descriptor folder(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.get() >= 0 && ::fsync(folder.get()) == 0 ? absl::OkStatus() : Error(errno);
}

absl::Status NewFile::Error(int error) const {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path_));
}

absl::Status WriteFile(const std::string& path, std::string_view content, mode_t mode) {
  NewFile file(path, mode);
  LONGWAVE_RETURN_IF_ERROR(file.Write(content.data(), content.size()));
  return file.Complete();
}

}  // namespace longwave
