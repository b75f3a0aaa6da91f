#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/doctor/measure.h"
#include "cli/programs/programs.h"
#include "common/base/clock.h"
#include "common/base/descriptor.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

// LibTorch with CUDA is gigabytes, and the disk may be slow.
constexpr absl::Duration kWorkerPatience = absl::Seconds(120);
constexpr size_t kDiskBytes = 32 << 20;
constexpr size_t kBlockBytes = 1 << 20;

absl::Status DiskError(const std::string& folder, const char* doing) {
  return Unavailable(folder, ": ", doing, ": ", std::strerror(errno));
}

absl::Status WriteAll(int fd, const std::vector<char>& block, const std::string& folder) {
  size_t done = 0;
  while (done < block.size()) {
    const ssize_t count = write(fd, block.data() + done, block.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return DiskError(folder, "cannot write");
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status TimeWrites(int fd, const std::string& folder, double free_bytes,
                        DiskReading* reading) {
  // No zeros, which some file systems do not store.
  std::vector<char> block(kBlockBytes);
  uint64_t word = 0x9e3779b97f4a7c15;
  for (char& c : block) c = static_cast<char>((word = word * 6364136223846793005 + 1) >> 56);
  const size_t bytes = static_cast<double>(kDiskBytes) < free_bytes / 2 ? kDiskBytes : kBlockBytes;
  const absl::Time begin = MonotonicNow();
  for (size_t done = 0; done < bytes; done += block.size())
    LONGWAVE_RETURN_IF_ERROR(WriteAll(fd, block, folder));
  if (fsync(fd) != 0) return DiskError(folder, "cannot sync");
  const absl::Time written = MonotonicNow();
  reading->bytes_per_second =
      static_cast<double>(bytes) / absl::ToDoubleSeconds(written - begin + absl::Microseconds(1));
  LONGWAVE_RETURN_IF_ERROR(WriteAll(fd, std::vector<char>(4096, 'x'), folder));
  if (fsync(fd) != 0) return DiskError(folder, "cannot sync");
  reading->sync = MonotonicNow() - written;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkerReading> MeasureWorker(const std::string& binaries,
                                            const std::string& device) {
  const std::string program = absl::StrCat(binaries, "/longwave-worker");
  if (access(program.c_str(), X_OK) != 0) return Unavailable(program, ": ", std::strerror(errno));
  LONGWAVE_ASSIGN_OR_RETURN(const Ended ended,
                            RunToEnd({program, "--check-device", device}, kWorkerPatience));
  WorkerReading reading;
  for (absl::string_view line : absl::StrSplit(ended.output, '\n')) {
    if (absl::ConsumePrefix(&line, "device "))
      reading.device = std::string(line);
    else if (absl::ConsumePrefix(&line, "why not cuda "))
      reading.why_not_cuda = std::string(line);
  }
  if (ended.well && !reading.device.empty()) return reading;
  // Quotes are short, so the missing library must come first: the loader's prefix, the program, is
  // cut.
  absl::string_view why = absl::StripAsciiWhitespace(ended.output);
  absl::ConsumePrefix(&why, absl::StrCat(program, ": "));
  absl::ConsumePrefix(&why, "error while loading shared libraries: ");
  return Unavailable(
      program, " does not start: ", why.empty() ? "it says nothing" : Quotable(std::string(why)));
}

absl::StatusOr<DiskReading> MeasureDisk(const std::string& folder) {
  DiskReading reading{.folder = folder};
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!fs::is_directory(there, error) && there.has_relative_path()) {
    if (error == std::errc::permission_denied) break;
    there = there.parent_path();
  }
  struct statvfs file_system = {};
  if (statvfs(there.c_str(), &file_system) != 0) return DiskError(there, "cannot be looked at");
  reading.free_bytes =
      static_cast<double>(file_system.f_bavail) * static_cast<double>(file_system.f_frsize);
  std::string file = there / ".longwave-doctor-XXXXXX";
  const Descriptor fd(mkostemp(file.data(), O_CLOEXEC));
  if (fd.get() < 0) return DiskError(there, "cannot be written to");
  unlink(file.c_str());  // now, so that a process that is ended leaves no file
  LONGWAVE_RETURN_IF_ERROR(TimeWrites(fd.get(), there, reading.free_bytes, &reading));
  return reading;
}

}  // namespace longwave
