#include "cli/worker_command.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view command) {
  std::vector<std::string> words;
  std::optional<std::string> word;  // the current word
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote == 0 && absl::ascii_isspace(static_cast<unsigned char>(c))) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
      continue;
    }
    if (!word) word.emplace();
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      const char next = command[++i];
      // Within "…" a backslash is literal unless the next character needs it.
      if (quote == '"' && next != '"' && next != '\\') word->push_back('\\');
      word->push_back(next);
    } else {
      word->push_back(c);
    }
  }
  if (quote != 0) {
    return InvalidArgument("--worker-command: got a ", std::string(1, quote),
                           " without a second one in ", command);
  }
  if (word) words.push_back(*std::move(word));
  if (words.empty() || words.front().empty()) {
    return InvalidArgument(
        "--worker-command: got an empty command, wanted one such as 'python train.py'");
  }
  return words;
}

bool IsProgram(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

// The program's path as a shell would find it; nullopt if there is none.
std::optional<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (IsProgram(name)) return name;
    return std::nullopt;
  }
  const char* path = std::getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (IsProgram(candidate)) return candidate;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseWorkerCommand(std::string_view command) {
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<std::string> words, SplitWords(command));
  std::optional<std::string> program = FindProgram(words.front());
  if (!program) {
    return NotFound("--worker-command: got ", words.front(),
                    ", wanted a program that can be run: a path or a name "
                    "that PATH leads to");
  }
  words.front() = *std::move(program);
  return words;
}

}  // namespace longwave
