#ifndef LONGWAVE_SERVER_STORE_POSIX_FILE_SYSTEM_H_
#define LONGWAVE_SERVER_STORE_POSIX_FILE_SYSTEM_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "server/store/file_system.h"

namespace longwave {

// Hears of each Append and Sync of a file, on the thread that calls it: bytes or duration, and
// success.
struct DiskWatch {
  std::function<void(uint64_t bytes, bool ok)> wrote = [](uint64_t, bool) {};
  std::function<void(absl::Duration took, bool ok)> synced = [](absl::Duration, bool) {};
};

// The machine's file system: writev, fdatasync, flock. Errors are those of absl::ErrnoToStatus. A
// full disk or quota is ResourceExhausted with the bytes wanted and free. The file system outlives
// its writable files.
std::unique_ptr<FileSystem> MakePosixFileSystem(DiskWatch watch = {});

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_POSIX_FILE_SYSTEM_H_
