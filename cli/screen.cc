#include "cli/screen.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

constexpr size_t kDefaultWidth = 80, kDefaultHeight = 24;
// The smallest useful view at the start. One that becomes narrower later is cut to its width, since
// a line that wraps would break the next drawing.
constexpr size_t kWidthMin = 20, kHeightMin = 10;

// Ignores write errors, since a slow or closed terminal must not end the run.
void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// Whether the terminal understands escape sequences.
bool Obeys(int fd) {
  const char* const term = std::getenv("TERM");
  const std::string_view kind = term == nullptr ? "" : term;
  return isatty(fd) != 0 && !kind.empty() && kind != "dumb";
}

winsize SizeOf(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) size = {};
  return size;
}

}  // namespace

std::string RedrawSequence(size_t lines_drawn, const std::vector<std::string>& lines) {
  std::string sequence = "\r";
  if (lines_drawn > 0) absl::StrAppend(&sequence, "\033[", lines_drawn, "A");
  for (const std::string& line : lines) absl::StrAppend(&sequence, line, "\033[K\n");
  return sequence + "\033[J";
}

Screen::Screen(int fd) : fd_(fd) {
  std::setlocale(LC_CTYPE, "");
  WriteAll(fd_, "\033[?25l");
}

Screen::~Screen() { WriteAll(fd_, "\033[?25h"); }

bool Screen::MayDraw(int fd) {
  if (!Obeys(fd)) return false;
  const winsize size = SizeOf(fd);
  return (size.ws_col == 0 || size.ws_col >= kWidthMin) &&
         (size.ws_row == 0 || size.ws_row >= kHeightMin);
}

bool Screen::MayColor(int fd) {
  const char* const no_color = std::getenv("NO_COLOR");
  return Obeys(fd) && (no_color == nullptr || *no_color == '\0');
}

TextStyle Screen::style() const {
  const winsize size = SizeOf(fd_);
  TextStyle style;
  style.width = size.ws_col > 0 ? size.ws_col : kDefaultWidth;
  // The cursor's line stays free, else each drawing would scroll the terminal.
  style.height = size.ws_row > 1 ? size.ws_row - 1u : kDefaultHeight - 1;
  style.utf8 = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  style.color = MayColor(fd_);
  return style;
}

void Screen::Draw(const std::vector<std::string>& lines) {
  const size_t count = std::min(style().height, lines.size());
  const std::vector<std::string> shown(lines.begin(),
                                       lines.begin() + static_cast<ptrdiff_t>(count));
  WriteAll(fd_, RedrawSequence(lines_drawn_, shown));
  lines_drawn_ = count;
}

TextStyle StyleOf(std::FILE* file) {
  const int fd = fileno(file);
  TextStyle style = kPlainText;
  if (isatty(fd) == 0) return style;
  const winsize size = SizeOf(fd);
  style.width = size.ws_col > 0 ? size.ws_col : kDefaultWidth;
  style.color = Screen::MayColor(fd);
  return style;
}

void PrintPainted(std::FILE* file, std::string_view text, Hue hue) {
  const std::string line = Painted(Printable(text), hue, StyleOf(file)) + "\n";
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

void PrintWrapped(std::FILE* file, const std::string& line, Hue hue) {
  for (const std::string& part : WrapWords(Printable(line), StyleOf(file).width, 0))
    PrintPainted(file, part, hue);
}

}  // namespace longwave
