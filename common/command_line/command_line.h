#ifndef LONGWAVE_COMMON_COMMAND_LINE_COMMAND_LINE_H_
#define LONGWAVE_COMMON_COMMAND_LINE_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace longwave {

// Reads a program's command line into what `app` was given. Nothing: the program goes on. Otherwise
// the status that it is to exit with at once:
//   0  --help or --version, which every program has ("longwave-server 0.1.0"), is on standard
//   output 1  one line on standard error says what is wrong, after `prefix`. An unknown option or
//   command is
//      named even where something else is missing, too, and comes first.
std::optional<int> ParseCommandLine(CLI::App* app, int argc, char** argv,
                                    const std::string& prefix);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_COMMAND_LINE_COMMAND_LINE_H_
