#ifndef LONGWAVE_SERVER_STORE_POSIX_FILE_SYSTEM_H_
#define LONGWAVE_SERVER_STORE_POSIX_FILE_SYSTEM_H_

#include <memory>

#include "server/store/file_system.h"

namespace longwave {

// The machine's file system: writev, fdatasync, flock. Errors are those of absl::ErrnoToStatus. A
// full disk or quota is ResourceExhausted with the bytes wanted and free.
std::unique_ptr<FileSystem> MakePosixFileSystem();

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_POSIX_FILE_SYSTEM_H_
