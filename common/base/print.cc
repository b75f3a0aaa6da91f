#include "common/base/print.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/utf8.h"

namespace longwave {

void PrintText(std::FILE* file, std::string_view text) {
  const std::string line = Printable(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

std::string ForShell(const std::string& word) {
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("-_./:", char(c));
  });
  return is_plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

int ExitStatus(const char* command, const absl::Status& status) {
  if (status.ok()) return 0;
  PrintLine(stderr, command, ": ", status.message());
  return 1;
}

int CheckOutput(const std::string& program, int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  PrintLine(stderr, program, ": cannot write the output: ", std::strerror(errno));
  return status == 0 ? 1 : status;
}

}  // namespace longwave
