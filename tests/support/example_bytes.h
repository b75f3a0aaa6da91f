#ifndef LONGWAVE_TESTS_SUPPORT_EXAMPLE_BYTES_H_
#define LONGWAVE_TESTS_SUPPORT_EXAMPLE_BYTES_H_

#include <cstddef>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "absl/strings/str_format.h"

namespace longwave {

// Bytes in the form of proto/'s pages: two hexadecimal digits and a space each.
inline std::string Hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte b : bytes) absl::StrAppendFormat(&text, "%02x ", std::to_integer<int>(b));
  return text;
}

// The bytes of the page's code block after the line "<!-- example: NAME -->". A line of the block
// is an offset, a colon, bytes in hexadecimal, and an explanation after "|".
inline std::string ExampleBytes(const std::string& page, const std::string& name) {
  std::ifstream file(page);
  std::string line;
  while (std::getline(file, line) && line != "<!-- example: " + name + " -->") {
  }
  if (!std::getline(file, line) || line != "```") return "no such example";
  std::string bytes;
  while (std::getline(file, line) && line != "```") {
    const size_t begin = line.find(':') + 1;
    std::istringstream words(line.substr(begin, line.find('|') - begin));
    for (std::string word; words >> word;) bytes += word + " ";
  }
  return bytes;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_EXAMPLE_BYTES_H_
