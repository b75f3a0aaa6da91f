#include "server/store/posix_file_system.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/descriptor.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

absl::Status Failed(int error, absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot ", what));
}

absl::StatusOr<Descriptor> Open(const std::string& path, int flags, absl::string_view what) {
  int fd = -1;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return Failed(errno, what, path);
  return Descriptor(fd);
}

uint64_t FreeBytesOf(int fd) {
  struct statvfs disk;
  if (fstatvfs(fd, &disk) != 0) return 0;
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

absl::Status WriteFailed(int error, int fd, uint64_t bytes_wanted, const std::string& path) {
  if (error == ENOSPC || error == EDQUOT) {
    return ResourceExhausted(path, ": the disk is full: wanted ", bytes_wanted, " bytes, ",
                             FreeBytesOf(fd), " are free",
                             error == EDQUOT ? " (over the quota)" : "");
  }
  return Failed(error, "write", path);
}

absl::Status ReadFully(int fd, uint64_t offset, std::span<std::byte> out, const std::string& path) {
  while (!out.empty()) {
    const ssize_t got = pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed(errno, "read", path);
    if (got == 0) {
      return OutOfRange(path, ": ends at ", offset, ", wanted ", out.size(), " bytes more");
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(Descriptor fd, std::string path, const DiskWatch& watch)
      : fd_(std::move(fd)), path_(std::move(path)), watch_(watch) {}

  absl::Status Append(BytePieces pieces) override {
    uint64_t bytes = 0;
    for (const std::span<const std::byte> piece : pieces) bytes += piece.size();
    absl::Status status = Write(pieces, bytes);
    watch_.wrote(bytes, status.ok());
    return status;
  }

  absl::Status Sync() override {
    const absl::Time begin = MonotonicNow();
    // An fdatasync that failed, interrupted or not, must never be repeated.
    absl::Status status =
        fdatasync(fd_.get()) == 0 ? absl::OkStatus() : Failed(errno, "sync", path_);
    watch_.synced(MonotonicNow() - begin, status.ok());
    return status;
  }

 private:
  absl::Status Write(BytePieces pieces, uint64_t left) {
    std::vector<iovec> vectors;
    for (const std::span<const std::byte> piece : pieces) {
      if (piece.empty()) continue;
      vectors.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
    }
    for (size_t next = 0; next < vectors.size();) {
      const size_t count = std::min<size_t>(vectors.size() - next, IOV_MAX);
      const ssize_t wrote = writev(fd_.get(), vectors.data() + next, static_cast<int>(count));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return WriteFailed(errno, fd_.get(), left, path_);
      left -= static_cast<uint64_t>(wrote);
      for (auto done = static_cast<size_t>(wrote); done > 0;) {
        iovec& vector = vectors[next];
        const size_t taken = std::min(done, vector.iov_len);
        vector.iov_base = static_cast<std::byte*>(vector.iov_base) + taken;
        vector.iov_len -= taken;
        done -= taken;
        if (vector.iov_len == 0) ++next;
      }
    }
    return absl::OkStatus();
  }

  Descriptor fd_;
  std::string path_;
  const DiskWatch& watch_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(Descriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::StatusOr<uint64_t> Size() const override {
    struct stat status;
    if (fstat(fd_.get(), &status) != 0) return Failed(errno, "stat", path_);
    return static_cast<uint64_t>(status.st_size);
  }

  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return ReadFully(fd_.get(), offset, out, path_);
  }

 private:
  Descriptor fd_;
  std::string path_;
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(Descriptor fd) : fd_(std::move(fd)) {}

 private:
  Descriptor fd_;  // the system frees the lock with the descriptor when the process ends
};

class PosixFileSystem final : public FileSystem {
 public:
  explicit PosixFileSystem(DiskWatch watch) : watch_(std::move(watch)) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    LONGWAVE_ASSIGN_OR_RETURN(Descriptor fd,
                              Open(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, "create"));
    return std::make_unique<PosixWritableFile>(std::move(fd), path, watch_);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override {
    LONGWAVE_ASSIGN_OR_RETURN(Descriptor fd, Open(path, O_WRONLY | O_APPEND, "append to"));
    return std::make_unique<PosixWritableFile>(std::move(fd), path, watch_);
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override {
    LONGWAVE_ASSIGN_OR_RETURN(Descriptor fd, Open(path, O_RDONLY, "read"));
    return std::make_unique<PosixReadableFile>(std::move(fd), path);
  }

  absl::Status Settle(const std::string& path, std::span<const std::byte> verified) override {
    LONGWAVE_ASSIGN_OR_RETURN(const Descriptor fd, Open(path, O_WRONLY, "write"));
    struct stat status;
    if (fstat(fd.get(), &status) != 0) return Failed(errno, "stat", path);
    const auto bytes = static_cast<off_t>(verified.size());
    if (status.st_size < bytes) {
      return OutOfRange(path, ": has ", status.st_size, " bytes, wanted at least ", bytes);
    }
    if (ftruncate(fd.get(), bytes) != 0) return Failed(errno, "cut", path);
    for (auto left = verified; !left.empty();) {
      const ssize_t wrote =
          pwrite(fd.get(), left.data(), left.size(), bytes - static_cast<off_t>(left.size()));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return WriteFailed(errno, fd.get(), left.size(), path);
      left = left.subspan(static_cast<size_t>(wrote));
    }
    if (fsync(fd.get()) != 0) return Failed(errno, "sync", path);
    return absl::OkStatus();
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) {
      return Failed(errno, absl::StrCat("rename to ", to), from);
    }
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return Failed(errno, "remove", path);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code gone;  // an entry removed since the listing is no file
      if (entry->is_regular_file(gone)) names.push_back(entry->path().filename().string());
    }
    if (error) return Failed(error.value(), "list", folder);
    std::ranges::sort(names);
    return names;
  }

  absl::Status CreateFolder(const std::string& folder) override {
    const std::filesystem::path path(folder);
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return absl::OkStatus();
    const std::string parent = path.parent_path().string();
    if (!parent.empty() && parent != folder) LONGWAVE_RETURN_IF_ERROR(CreateFolder(parent));
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return Failed(errno, "create the folder", folder);
    }
    if (!std::filesystem::is_directory(path, error)) {
      return FailedPrecondition(folder, ": is a file, wanted a folder");
    }
    return SyncFolder(parent.empty() ? "." : parent);
  }

  absl::Status SyncFolder(const std::string& folder) override {
    LONGWAVE_ASSIGN_OR_RETURN(const Descriptor fd, Open(folder, O_RDONLY | O_DIRECTORY, "open"));
    if (fsync(fd.get()) != 0) return Failed(errno, "sync", folder);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    LONGWAVE_ASSIGN_OR_RETURN(Descriptor fd, Open(path, O_RDWR | O_CREAT, "open"));
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return Unavailable(path, ": another process holds this lock");
      return Failed(errno, "lock", path);
    }
    return std::make_unique<PosixFileLock>(std::move(fd));
  }

 private:
  const DiskWatch watch_;
};

}  // namespace

std::unique_ptr<FileSystem> MakePosixFileSystem(DiskWatch watch) {
  return std::make_unique<PosixFileSystem>(std::move(watch));
}

}  // namespace longwave
