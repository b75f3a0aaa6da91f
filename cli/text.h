#ifndef LONGWAVE_CLI_TEXT_H_
#define LONGWAVE_CLI_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace longwave {

// Lines and tables of text for people (figures in them: common/base/figures.h).

// The limits of lines, and the characters of the reader's terminal.
struct TextStyle {
  size_t width = 80;
  size_t height = 1000;  // lines; unbounded in a log
  bool utf8 = true;      // false: bars and sparklines in ASCII
  bool color = false;    // hues are shown
};
// A width for any line.
inline constexpr TextStyle kPlainText{.width = 1 << 20};

enum class Hue : uint8_t { kPlain, kGood, kDoubtful, kBad };  // kGood: done; kBad: trouble
// `text` (no control characters) in the hue's colour, if the style has colours.
std::string Painted(std::string_view text, Hue hue, const TextStyle& style);

// Columns that `text` (UTF-8, no controls, no wide characters) takes.
size_t DisplayWidth(std::string_view text);
// `text` cut to at most `width` columns.
std::string FitWidth(std::string_view text, size_t width);

// `text` in lines of at most `width` columns, broken only between words: a wider word, such as a
// path, gets its own line. Lines after the first begin with `indent` spaces.
std::vector<std::string> WrapWords(std::string_view text, size_t width, size_t indent);

// A bar of `width` columns filled up to `share` (0 … 1).
std::string ProgressBar(double share, size_t width, const TextStyle& style);
// The last `width` values as a line of bars between their minimum and maximum; empty without UTF-8.
std::string Sparkline(const std::vector<double>& values, size_t width, const TextStyle& style);

// Rows of cells in columns as wide as their widest cell. The first column is left-aligned, the
// others right-aligned, with two spaces between.
class TextTable {
 public:
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::vector<std::string> Lines() const { return Lines(kPlainText.width, {}); }
  // At most `width` columns if possible: the columns `expendable`, which rows of this length have,
  // are removed one after the other until the table fits.
  std::vector<std::string> Lines(size_t width, std::initializer_list<size_t> expendable) const;

 private:
  std::vector<std::string> LinesWithout(const std::set<size_t>& columns) const;

  std::vector<std::vector<std::string>> rows_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_TEXT_H_
