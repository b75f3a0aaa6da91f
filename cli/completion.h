#ifndef LONGWAVE_CLI_COMPLETION_H_
#define LONGWAVE_CLI_COMPLETION_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace longwave {

// A bash script that completes the program's commands and options, and keys after --set: `source
// <(longwave completion bash)`. Falls back to file names.
std::string BashCompletion(const CLI::App& app, const std::vector<std::string>& keys);

}  // namespace longwave

#endif  // LONGWAVE_CLI_COMPLETION_H_
