#include "common/command_line/command_line.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/edit_distance.h"
#include "common/base/print.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

// The innermost given command, whose options and words an error is about.
const CLI::App& Innermost(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() ? app : Innermost(*given.front());
}

// The arguments that no option or command takes; empty if none. CLI11 would report a missing option
// before these.
std::string Unknown(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  if (rest.empty()) return "";
  const auto option = std::ranges::find_if(
      rest, [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
  if (option != rest.end())
    return absl::StrCat("unknown option ", Quotable(option->substr(0, option->find('='))));
  const auto commands = Innermost(app).get_subcommands({});
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

// The error as what, got and wanted. CLI11 says of a value that is no number only that it is none.
std::string Sentence(const CLI::App& app, const CLI::ParseError& error) {
  const std::string unknown = Unknown(app);
  if (!unknown.empty()) return unknown;
  absl::string_view text = error.what();
  if (!absl::ConsumePrefix(&text, "Could not convert: ")) return error.what();
  const std::pair<std::string, std::string> named = absl::StrSplit(text, absl::MaxSplits(" = ", 1));
  const std::string type = Innermost(app).get_option(named.first)->get_type_name();
  return absl::StrCat(named.first, ": got ", Quotable(named.second), ", wanted ",
                      type == "FLOAT" ? "a number" : "a whole number",
                      type == "UINT" ? " from 0 on" : "", ", not too large");
}

}  // namespace

CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](const std::string& value) { return value.empty() ? "got nothing, wanted a value" : ""; },
      "");
}

std::optional<int> ParseCommandLine(CLI::App* app, int argc, char** argv,
                                    const std::string& prefix) {
  app->set_version_flag("--version", absl::StrCat(app->get_name(), " ", LONGWAVE_VERSION));
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0)  // --help, --version
      return CheckOutput(app->get_name(), app->exit(error));
    PrintLine(stderr, prefix, Sentence(*app, error), " (--help lists the options)");
    return 1;
  }
  return std::nullopt;
}

}  // namespace longwave
