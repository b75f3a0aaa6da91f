#include "cli/text.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

bool StartsCodePoint(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, StartsCodePoint));
}

std::string FitWidth(std::string_view text, size_t width) {
  size_t columns = 0, bytes = 0;
  for (; bytes < text.size(); ++bytes) {
    if (StartsCodePoint(text[bytes]) && ++columns > width) break;
  }
  return std::string(text.substr(0, bytes));
}

std::vector<std::string> WrapWords(std::string_view text, size_t width, size_t indent) {
  std::vector<std::string> lines;
  if (DisplayWidth(text) > width) {
    const size_t bytes = FitWidth(text, width).size();
    // The last space that leaves a line short enough, or else the first space after the
    // indentation.
    const size_t begin = text.find_first_not_of(' ');
    size_t space = text.rfind(' ', bytes);
    if (space == std::string_view::npos || space < begin) space = text.find(' ', begin);
    const size_t next = text.find_first_not_of(' ', space);
    if (space != std::string_view::npos && next != std::string_view::npos) {
      lines = WrapWords(std::string(indent, ' ') + std::string(text.substr(next)), width, indent);
      text = text.substr(0, space);
    }
  }
  lines.insert(lines.begin(), std::string(text));
  return lines;
}

std::string ProgressBar(double share, size_t width, const TextStyle& style) {
  const double clamped = std::clamp(share, 0.0, 1.0);
  const auto filled = static_cast<size_t>(clamped * static_cast<double>(width) + 1e-9);
  std::string bar;
  for (size_t i = 0; i < width; ++i) {
    bar += i < filled ? (style.utf8 ? "█" : "#") : (style.utf8 ? "░" : ".");
  }
  return bar;
}

std::string Sparkline(const std::vector<double>& values, size_t width, const TextStyle& style) {
  static constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (!style.utf8 || values.size() < 2) return "";
  const auto begin = values.end() - static_cast<ptrdiff_t>(std::min(width, values.size()));
  const auto [low, high] = std::minmax_element(begin, values.end());
  const double span = *high - *low;
  std::string line;
  for (auto value = begin; value != values.end(); ++value) {
    const double level = span > 0 ? (*value - *low) / span : 0;
    line += kBars[static_cast<size_t>(level * (kBars.size() - 1) + 0.5)];
  }
  return line;
}

std::string Painted(std::string_view text, Hue hue, const TextStyle& style) {
  static constexpr std::array<std::string_view, 4> kCodes = {"", "32", "33", "31"};
  const std::string_view code = kCodes[static_cast<size_t>(hue)];
  if (!style.color || code.empty() || text.empty()) return std::string(text);
  return std::string("\033[").append(code).append("m").append(text).append("\033[0m");
}

std::vector<std::string> TextTable::Lines(size_t width,
                                          std::initializer_list<size_t> expendable) const {
  std::set<size_t> without;
  std::vector<std::string> lines = LinesWithout(without);
  const auto is_wide = [width](const std::string& line) { return DisplayWidth(line) > width; };
  for (const size_t column : expendable) {
    if (std::ranges::none_of(lines, is_wide)) break;
    without.insert(column);
    lines = LinesWithout(without);
  }
  return lines;
}

std::vector<std::string> TextTable::LinesWithout(const std::set<size_t>& columns) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - DisplayWidth(row[i]), ' ');
      if (columns.contains(i)) continue;
      if (i == 0) {
        absl::StrAppend(&line, row[i], padding);
      } else {
        absl::StrAppend(&line, "  ", padding, row[i]);
      }
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace longwave
