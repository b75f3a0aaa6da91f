#ifndef LONGWAVE_COMMON_BASE_NEW_FILE_H_
#define LONGWAVE_COMMON_BASE_NEW_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/descriptor.h"

namespace longwave {

// A file under construction, beside its place. Complete makes it appear there, durably, instead of
// a file of that name; otherwise the destructor removes it. Unavailable, PermissionDenied,
// NotFound, FailedPrecondition, ResourceExhausted: not writable; the message says which file and
// why.
class NewFile {
 public:
  // mode: as open's, less the umask.
  explicit NewFile(const std::string& path, mode_t mode = 0666);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Whether the file could be made, and none but a file is in its place.
  const absl::Status& status() const { return status_; }
  absl::Status Write(const void* data, size_t size);
  absl::Status Complete();

 private:
  absl::Status Error(int error) const;

  const std::string path_;
  const std::string temporary_;
  Descriptor fd_;
  absl::Status status_;
};

// A whole file at once.
absl::Status WriteFile(const std::string& path, std::string_view content, mode_t mode = 0666);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_NEW_FILE_H_
