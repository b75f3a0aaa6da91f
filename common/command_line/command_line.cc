#include "common/command_line/command_line.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/edit_distance.h"
#include "common/base/print.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

// The arguments that no option or command takes; empty if none. CLI11 would report a missing option
// before these.
std::string Unknown(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  if (rest.empty()) return "";
  const auto option = std::ranges::find_if(
      rest, [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
  if (option != rest.end())
    return absl::StrCat("unknown option ", Quotable(option->substr(0, option->find('='))));
  // The innermost given command has the unknown word.
  const CLI::App* last = &app;
  while (!last->get_subcommands().empty()) last = last->get_subcommands().front();
  const auto commands = last->get_subcommands({});
  if (commands.empty()) return absl::StrCat("unexpected argument ", Quotable(rest.front()));
  constexpr size_t kDistanceMax = 2;
  std::pair<size_t, std::string> nearest = {kDistanceMax + 1, ""};
  for (const CLI::App* command : commands)
    nearest =
        std::min(nearest, {EditDistance(rest.front(), command->get_name()), command->get_name()});
  const bool is_near = nearest.first < std::min(kDistanceMax + 1, rest.front().size());
  return absl::StrCat("unknown command ", Quotable(rest.front()),
                      is_near ? absl::StrCat("; did you mean ", nearest.second, "?") : "");
}

}  // namespace

std::optional<int> ParseCommandLine(CLI::App* app, int argc, char** argv,
                                    const std::string& prefix) {
  app->set_version_flag("--version", absl::StrCat(app->get_name(), " ", LONGWAVE_VERSION));
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app->exit(error);  // --help, --version
    const std::string unknown = Unknown(*app);
    PrintLine(stderr, absl::StrCat(prefix, unknown.empty() ? error.what() : unknown,
                                   " (--help lists the options)"));
    return 1;
  }
  return std::nullopt;
}

}  // namespace longwave
