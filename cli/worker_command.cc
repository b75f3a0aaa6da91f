#include "cli/worker_command.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "cli/programs/programs.h"
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
