#ifndef LONGWAVE_SERVER_STORE_LOG_FILE_H_
#define LONGWAVE_SERVER_STORE_LOG_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/errors.h"
#include "common/wire/buffer.h"
#include "server/store/file_system.h"
#include "server/store/log_format.h"
#include "server/store/store_identity.h"

namespace longwave {

// The files of a delta log's folder, for the process that holds it and for audits.

// "00000001.lwlog".
std::string LogFileName(uint32_t number);

// The numbers of the folder's log files, ascending.
absl::StatusOr<std::vector<uint32_t>> ListLogFiles(FileSystem& files, const std::string& folder);
// DataLoss: a file between others is missing.
absl::Status CheckNoGap(const std::string& folder, const std::vector<uint32_t>& numbers);

// A whole file, with its header decoded and checked. Errors: DecodeLogFileHeader's,
// CheckIdentity's, and DataLoss for another file's header.
struct LogFile {
  Buffer bytes;
  LogFileHeader header;
};
absl::StatusOr<LogFile> ReadLogFile(FileSystem& files, const std::string& folder, uint32_t number,
                                    const StoreIdentity& identity);

// DataLoss: "PATH, offset OFFSET: WHY".
template <typename... Why>
absl::Status LostAt(const std::string& path, uint64_t offset, const Why&... why) {
  return DataLoss(path, ", offset ", offset, ": ", why...);
}

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_LOG_FILE_H_
