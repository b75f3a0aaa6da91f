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

// How figures are written for people. Units are powers of 1000; three or four digits are enough to
// compare by eye, and every text is as short as that allows.

// Lines as wide as they may be and in the characters that the reader's terminal has.
struct TextStyle {
  size_t width = 80;
  size_t height = 1000;  // lines; a log has no end
  bool utf8 = true;      // false: bars and sparklines in ASCII
  bool color = false;    // hues are shown
};
// Wide enough for everything.
inline constexpr TextStyle kPlainText{.width = 1 << 20};

enum class Hue : uint8_t { kPlain, kGood, kDoubtful, kBad };  // kGood: done; kBad: trouble
// `text`, which has no controls, in the hue's colour if the style has colours.
std::string Painted(std::string_view text, Hue hue, const TextStyle& style);

std::string FormatBytes(double bytes);       // "999 B", "1.0 kB", "63.2 kB", "13.8 MB"
std::string FormatCount(double count);       // "999", "12.3 k", "1.05 M"
std::string FormatDuration(double seconds);  // "0:07", "12:03", "1:02:03"; "-" if not finite
std::string FormatLoss(double loss);         // "2.187"; "-" for a loss that is not known, i.e. NaN
std::string FormatRatio(double numerator, double denominator);  // "218 x", "6.1 x"; "-" by zero
std::string FormatHash(uint64_t hash);                          // 16 hex digits

// Columns that `text` (UTF-8, no controls, no wide characters) takes.
size_t DisplayWidth(std::string_view text);
// `text` cut to at most `width` columns.
std::string FitWidth(std::string_view text, size_t width);

// `text` in lines of at most `width` columns, broken between words alone: a word that is wider,
// such as a path, has a line of its own. Lines after the first begin with `indent` spaces.
std::vector<std::string> WrapWords(std::string_view text, size_t width, size_t indent);

// A bar of `width` columns filled up to `share` (0 … 1).
std::string ProgressBar(double share, size_t width, const TextStyle& style);
// The last `width` values as a line of bars between their minimum and maximum; empty without UTF-8.
std::string Sparkline(const std::vector<double>& values, size_t width, const TextStyle& style);

// Rows of cells in columns as wide as their widest cell: the first column to the left, the others
// to the right, two spaces between.
class TextTable {
 public:
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::vector<std::string> Lines() const { return Lines(kPlainText.width, {}); }
  // Of at most `width` columns if that is to be had: the columns `expendable`, which rows of this
  // length have, are left out one after the other until it is.
  std::vector<std::string> Lines(size_t width, std::initializer_list<size_t> expendable) const;

 private:
  std::vector<std::string> LinesWithout(const std::set<size_t>& columns) const;

  std::vector<std::vector<std::string>> rows_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_TEXT_H_
