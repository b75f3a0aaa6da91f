#ifndef LONGWAVE_COMMON_RPC_LINE_LIMIT_H_
#define LONGWAVE_COMMON_RPC_LINE_LIMIT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace longwave {

// Limits the lines of the log that peers cause: so many in a window, which the first line begins.
// The next window's first line says how many were left out. Not thread-safe.
class LineLimit {
 public:
  LineLimit(uint64_t lines, absl::Duration window) : lines_(lines), window_(window) {}

  // Whether a line may be logged now. True: `left_out` is the end of that line, "" or
  // " (17 lines were left out)".
  bool May(absl::Time now, std::string* left_out) {
    left_out->clear();
    if (now - since_ >= window_) {
      since_ = now;
      if (count_ > lines_) *left_out = absl::StrCat(" (", count_ - lines_, " lines were left out)");
      count_ = 0;
    }
    return ++count_ <= lines_;
  }

 private:
  const uint64_t lines_;
  const absl::Duration window_;
  absl::Time since_ = absl::InfinitePast();
  uint64_t count_ = 0;  // since then
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_LINE_LIMIT_H_
