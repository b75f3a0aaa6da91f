#include "common/rpc/line_limit.h"

#include "absl/strings/str_cat.h"

namespace longwave {

bool LineLimit::May(absl::Time now, std::string* left_out) {
  left_out->clear();
  if (now - since_ >= window_) {
    since_ = now;
    if (count_ > lines_) *left_out = absl::StrCat(" (", count_ - lines_, " lines were left out)");
    count_ = 0;
  }
  return ++count_ <= lines_;
}

}  // namespace longwave
