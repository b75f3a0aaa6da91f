#include "server/store/log_file.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/delta_log.h"

namespace longwave {
namespace {

// Above the size of any log file: the largest that options allow, and one record.
constexpr uint64_t kReadBytesMax = kLogFileBytesMax + 2 * uint64_t{kLogBodyBytesMax};

}  // namespace

std::string LogFileName(uint32_t number) { return absl::StrFormat("%08d.lwlog", number); }

absl::StatusOr<std::vector<uint32_t>> ListLogFiles(FileSystem& files, const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  std::vector<uint32_t> numbers;
  for (const std::string& name : names) {
    uint32_t number = 0;
    if (absl::SimpleAtoi(name.substr(0, name.find('.')), &number) && number != 0 &&
        LogFileName(number) == name) {
      numbers.push_back(number);
    }
  }
  std::ranges::sort(numbers);
  return numbers;
}

absl::Status CheckNoGap(const std::string& folder, const std::vector<uint32_t>& numbers) {
  for (size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] == numbers[i - 1] + 1) continue;
    return DataLoss(JoinPath(folder, LogFileName(numbers[i - 1] + 1)), ": is gone; ",
                    JoinPath(folder, LogFileName(numbers[i])), " comes after it");
  }
  return absl::OkStatus();
}

absl::StatusOr<LogFile> ReadLogFile(FileSystem& files, const std::string& folder, uint32_t number,
                                    const StoreIdentity& identity) {
  const std::string path = JoinPath(folder, LogFileName(number));
  LogFile file;
  LONGWAVE_ASSIGN_OR_RETURN(file.bytes, ReadWhole(files, path, kReadBytesMax));
  const absl::StatusOr<LogFileHeader> header = DecodeLogFileHeader(
      file.bytes.bytes().first(std::min<size_t>(file.bytes.size(), kLogFileHeaderBytes)));
  if (!header.ok()) return Prefixed(path, header.status());
  LONGWAVE_RETURN_IF_ERROR(CheckIdentity(path, header->identity, identity));
  if (header->file != number) {
    return LostAt(path, 0, "got the header of file ", header->file);
  }
  file.header = *header;
  return file;
}

}  // namespace longwave
