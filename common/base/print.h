#ifndef LONGWAVE_COMMON_BASE_PRINT_H_
#define LONGWAVE_COMMON_BASE_PRINT_H_

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace longwave {

// Writes the parts in a row, each as in an error (errors.h), as one line to standard output or
// error, and flushes. The line is made Printable, since other processes' words may be in it.
void PrintText(std::FILE* file, std::string_view text);
template <typename... Parts>
void PrintLine(std::FILE* file, const Parts&... parts) {
  PrintText(file, absl::StrCat(ErrorPart(parts)...));
}

// A word as it is typed in a shell, quoted where it must be.
std::string ForShell(const std::string& word);

// A command's exit status: 0, or 1 after "command: message" on standard error.
int ExitStatus(const char* command, const absl::Status& status);

// The exit status of a program whose output is its result: `status`, or 1 after a line on standard
// error if standard output could not be written.
int CheckOutput(const std::string& program, int status);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_PRINT_H_
