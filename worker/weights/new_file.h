#ifndef LONGWAVE_WORKER_WEIGHTS_NEW_FILE_H_
#define LONGWAVE_WORKER_WEIGHTS_NEW_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace longwave {

// A file under construction. Complete makes it appear under its name, durably; otherwise the
// destructor removes it. Unavailable, PermissionDenied, NotFound: not writable; the message says
// which file and why.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Open() const { return fd_ < 0 ? Error("create") : absl::OkStatus(); }
  absl::Status Write(const void* data, size_t size);
  absl::Status Complete();

 private:
  absl::Status Error(const char* what) const;

  const std::string path_;
  const std::string temporary_;
  const int fd_;
  bool complete_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_WEIGHTS_NEW_FILE_H_
