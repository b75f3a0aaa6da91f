#ifndef LONGWAVE_SERVER_STORE_LOG_FILE_NAME_H_
#define LONGWAVE_SERVER_STORE_LOG_FILE_NAME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace longwave {

// "00000001.lwlog".
inline std::string LogFileName(uint32_t number) { return absl::StrFormat("%08d.lwlog", number); }

// The number in a log file's name; nothing if LogFileName does not give this name.
inline std::optional<uint32_t> LogFileNumber(absl::string_view name) {
  uint32_t number = 0;
  if (!absl::SimpleAtoi(name.substr(0, name.find('.')), &number)) return std::nullopt;
  if (number == 0 || LogFileName(number) != name) return std::nullopt;
  return number;
}

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_LOG_FILE_NAME_H_
