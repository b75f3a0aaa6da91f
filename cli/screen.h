#ifndef LONGWAVE_CLI_SCREEN_H_
#define LONGWAVE_CLI_SCREEN_H_

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cli/text.h"

namespace longwave {

// A block of lines at the end of a terminal's output that is redrawn in place. The cursor is hidden
// while the object lives and stands below the block when it goes.
class Screen {
 public:
  explicit Screen(int fd);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Whether `fd` is a terminal that escape sequences redraw (TERM names it, and is not "dumb"), and
  // wide and high enough for a live view to say something. One that does not tell its size is.
  static bool MayDraw(int fd);

  // Whether `fd` is such a terminal, and the environment does not say NO_COLOR (no-color.org).
  static bool MayColor(int fd);

  // Size of the terminal now, less the cursor's own line, whether its locale has UTF-8, and
  // MayColor.
  TextStyle style() const;

  // Draws over what was drawn last. Lines that the terminal is too low for are left out at the end.
  void Draw(const std::vector<std::string>& lines);
  // Removes what was drawn last.
  void Clear() { Draw({}); }

 private:
  const int fd_;
  size_t lines_drawn_ = 0;
};

// Lines to `file` are as wide as its terminal, or of any width where it is none; and MayColor.
TextStyle StyleOf(std::FILE* file);
// PrintLine, in the hue's colour where `file` may have colours.
void PrintPainted(std::FILE* file, std::string_view text, Hue hue);

// The escape sequences that replace `lines_drawn` lines above the cursor by `lines`.
std::string RedrawSequence(size_t lines_drawn, const std::vector<std::string>& lines);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SCREEN_H_
