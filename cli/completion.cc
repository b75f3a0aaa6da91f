#include "cli/completion.h"

#include <CLI/CLI.hpp>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace longwave {
namespace {

constexpr const char* kScript =
    R"(# Of `longwave completion bash`: source it, or put it where bash looks for completions.
_longwave() {
  local word=${COMP_WORDS[COMP_CWORD]} path="" words="" i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path ${COMP_WORDS[i]}" in
      PATHS) path="$path ${COMP_WORDS[i]}" ;;
    esac
  done
  if [[ ${COMP_WORDS[COMP_CWORD - 1]} == --set ]]; then
    compopt -o nospace
    COMPREPLY=($(compgen -S = -W "KEYS" -- "$word"))
    return
  fi
  case "$path" in
CASES  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _longwave longwave
)";

// Adds the command at `path` and its subcommands.
void Add(const CLI::App& command, const std::string& path, std::vector<std::string>* paths,
         std::string* cases) {
  std::vector<std::string> words;
  const std::function<bool(const CLI::App*)> all;
  for (const CLI::App* below : command.get_subcommands(all)) words.push_back(below->get_name());
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  absl::StrAppend(cases, "    \"", path, "\") words=\"", absl::StrJoin(words, " "), "\" ;;\n");
  for (const CLI::App* below : command.get_subcommands(all)) {
    // A copy, since the vector moves its own as it grows.
    const std::string below_path = absl::StrCat(path, " ", below->get_name());
    paths->push_back(below_path);
    Add(*below, below_path, paths, cases);
  }
}

}  // namespace

std::string BashCompletion(const CLI::App& app, const std::vector<std::string>& keys) {
  std::vector<std::string> paths;
  std::string cases;
  Add(app, "", &paths, &cases);
  return absl::StrReplaceAll(kScript,
                             {{"PATHS", absl::StrCat("\"", absl::StrJoin(paths, "\"|\""), "\"")},
                              {"KEYS", absl::StrJoin(keys, " ")},
                              {"CASES", cases}});
}

}  // namespace longwave
