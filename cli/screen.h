#ifndef LONGWAVE_CLI_SCREEN_H_
#define LONGWAVE_CLI_SCREEN_H_

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cli/text.h"

namespace longwave {

// A block of lines at the end of a terminal's output that is redrawn in place. The cursor is hidden
// while the object lives, and is below the block afterwards.
class Screen {
 public:
  explicit Screen(int fd);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Whether `fd` is a terminal with escape sequences (TERM names it, and is not "dumb") and is
  // large enough for a live view. A terminal of unknown size is.
  static bool MayDraw(int fd);

  // Whether `fd` is such a terminal, and NO_COLOR is not set (no-color.org).
  static bool MayColor(int fd);

  // The terminal's size without the cursor's line, whether its locale is UTF-8, and MayColor.
  TextStyle style() const;

  // Replaces the last drawing. Lines beyond the terminal's height are left out at the end.
  void Draw(const std::vector<std::string>& lines);
  // Removes the last drawing.
  void Clear() { Draw({}); }

 private:
  const int fd_;
  size_t lines_drawn_ = 0;
};

// The style of lines to `file`: as wide as its terminal, or of any width without one; and MayColor.
TextStyle StyleOf(std::FILE* file);
// PrintLine, in the hue's colour if `file` may have colours.
void PrintPainted(std::FILE* file, std::string_view text, Hue hue);
// The same of a line that in a terminal is broken between words.
void PrintWrapped(std::FILE* file, const std::string& line, Hue hue);

// The escape sequences that replace `lines_drawn` lines above the cursor by `lines`.
std::string RedrawSequence(size_t lines_drawn, const std::vector<std::string>& lines);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SCREEN_H_
