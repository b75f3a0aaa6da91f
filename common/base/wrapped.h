#ifndef LONGWAVE_COMMON_BASE_WRAPPED_H_
#define LONGWAVE_COMMON_BASE_WRAPPED_H_

#include <string>
#include <string_view>

namespace longwave {

// The words of a text for a page of Markdown, in lines of at most 120 bytes where its words allow.
// Lines after the first begin with `indent`, and never with a word that would begin a list there.
std::string Wrapped(std::string_view text, std::string_view indent);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_WRAPPED_H_
