#include "common/base/print.h"

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace longwave {

void PrintLine(std::FILE* file, std::string_view text) {
  const std::string line = Printable(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

int ExitStatus(const char* command, const absl::Status& status) {
  if (status.ok()) return 0;
  PrintLine(stderr, absl::StrCat(command, ": ", status.message()));
  return 1;
}

}  // namespace longwave
