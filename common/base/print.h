#ifndef LONGWAVE_COMMON_BASE_PRINT_H_
#define LONGWAVE_COMMON_BASE_PRINT_H_

#include <cstdio>
#include <string_view>

namespace longwave {

// Writes `text`, made Printable since other processes' words may be in it, as one line to standard
// output or error, and flushes.
void PrintLine(std::FILE* file, std::string_view text);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_PRINT_H_
