#ifndef LONGWAVE_COMMON_BASE_DESCRIPTOR_H_
#define LONGWAVE_COMMON_BASE_DESCRIPTOR_H_

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace longwave {

// A file descriptor with an owner that closes it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) close(Release());
  }

 private:
  int fd_;
};

// For a program's first line: raises the soft limit of open files to the hard one, since every
// connection takes descriptors, a stranger's too.
inline void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

// For a program's first line: /dev/null for each standard stream that the caller has closed, so
// that no file of the program gets its number.
inline void OpenStandardStreams() {
  int fd;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_DESCRIPTOR_H_
