#ifndef LONGWAVE_CLI_SCREEN_H_
#define LONGWAVE_CLI_SCREEN_H_

#include <string>
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

  // Size of the terminal now, less the cursor's own line, and whether its locale has UTF-8.
  TextStyle style() const;

  // Draws over what was drawn last. Lines that the terminal is too low for are left out at the end.
  void Draw(const std::vector<std::string>& lines);
  // Removes what was drawn last.
  void Clear() { Draw({}); }

 private:
  const int fd_;
  size_t lines_drawn_ = 0;
};

// Columns of the terminal `fd`; of anything else, more than a line has.
size_t ColumnsOf(int fd);

// The escape sequences that replace `lines_drawn` lines above the cursor by `lines`.
std::string RedrawSequence(size_t lines_drawn, const std::vector<std::string>& lines);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SCREEN_H_
