#ifndef LONGWAVE_SERVER_STORE_POSIX_FILE_SYSTEM_H_
#define LONGWAVE_SERVER_STORE_POSIX_FILE_SYSTEM_H_

#include <memory>

#include "server/store/file_system.h"

namespace longwave {

// The machine's own: writev, fdatasync, flock. Errors are those of errno, by absl::ErrnoToStatus;
// a full disk or quota is ResourceExhausted with the bytes wanted and free.
std::unique_ptr<FileSystem> MakePosixFileSystem();

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_POSIX_FILE_SYSTEM_H_
