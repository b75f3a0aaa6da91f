#include "worker/weights/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace longwave {

NewFile::NewFile(const std::string& path)
    : path_(path),
      temporary_(absl::StrCat(path, ".tmp.", ::getpid())),
      fd_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}

NewFile::~NewFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!complete_) ::unlink(temporary_.c_str());
}

absl::Status NewFile::Write(const void* data, size_t size) {
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

// The rename is durable after the sync of the folder.
absl::Status NewFile::Complete() {
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

absl::Status NewFile::Error(const char* what) const {
  return absl::ErrnoToStatus(errno, absl::StrCat("model file: can't ", what, " ", path_));
}

}  // namespace longwave
