#include "common/base/wrapped.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"

namespace longwave {
namespace {

constexpr size_t kColumns = 120;

bool BeginsAList(std::string_view word) {
  return word == "+" || word == "-" || word == "*" ||
         (absl::ascii_isdigit(word.front()) && (word.ends_with('.') || word.ends_with(')')));
}

}  // namespace

std::string Wrapped(std::string_view text, std::string_view indent) {
  std::string lines;
  size_t used = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    if (used > 0 && (used + 1 + word.size() <= kColumns || BeginsAList(word))) {
      lines += ' ';
      used += 1;
    } else if (used > 0) {
      lines.append("\n").append(indent);
      used = indent.size();
    }
    lines.append(word);
    used += word.size();
  }
  return lines;
}

}  // namespace longwave
