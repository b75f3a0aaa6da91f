#ifndef LONGWAVE_COMMON_BASE_PRINT_H_
#define LONGWAVE_COMMON_BASE_PRINT_H_

#include <cstdio>
#include <string_view>

namespace longwave {

// Writes `text` as one line to standard output or error, for people: as Printable has it, since
// other processes' words may stand in it. The line is out when this returns.
void PrintLine(std::FILE* file, std::string_view text);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_PRINT_H_
