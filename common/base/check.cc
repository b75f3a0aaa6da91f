#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace longwave {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: this cannot happen: %s is false\n", file, line, condition);
  std::abort();
}

}  // namespace longwave
