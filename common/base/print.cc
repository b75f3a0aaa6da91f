#include "common/base/print.h"

#include "common/base/utf8.h"

namespace longwave {

void PrintLine(std::FILE* file, std::string_view text) {
  const std::string line = Printable(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

}  // namespace longwave
