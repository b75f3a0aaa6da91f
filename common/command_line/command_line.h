#ifndef LONGWAVE_COMMON_COMMAND_LINE_COMMAND_LINE_H_
#define LONGWAVE_COMMON_COMMAND_LINE_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace longwave {

// Parses a program's command line into `app`. Returns nullopt if the program goes on, else its exit
// status:
//   0  --help or --version ("longwave-server 0.1.0"), which every program has, is on standard
//      output
//   1  an error is on standard error, in one line after `prefix`; an unknown option or command
//      takes precedence over a missing one
std::optional<int> ParseCommandLine(CLI::App* app, int argc, char** argv,
                                    const std::string& prefix);

// For a path or another value that cannot be empty, as an unset variable of a script is.
CLI::Validator NotEmpty();

}  // namespace longwave

#endif  // LONGWAVE_COMMON_COMMAND_LINE_COMMAND_LINE_H_
