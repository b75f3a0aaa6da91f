#include "cli/generate.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "cli/programs/programs.h"
#include "cli/screen.h"
#include "cli/text.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

absl::StatusOr<std::vector<std::string>> CommandOf(const GenerateOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string binaries, WorkerFolder());
  std::vector<std::string> command = {absl::StrCat(binaries, "/longwave-worker"),
                                      absl::StrCat("--generate=", options.folder),
                                      absl::StrCat("--length=", options.length),
                                      absl::StrCat("--temperature=", options.temperature),
                                      absl::StrCat("--top-k=", options.top_k),
                                      absl::StrCat("--seed=", options.seed)};
  // In one word with =, so that a prompt may begin with a dash; an empty one needs two words.
  if (options.prompt.empty()) {
    command.insert(command.end(), {"--prompt", ""});
  } else {
    command.push_back(absl::StrCat("--prompt=", options.prompt));
  }
  return command;
}

absl::Status Generate(const GenerateOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> command, CommandOf(options));
  return Become(command);
}

}  // namespace

int RunGenerate(const GenerateOptions& options) {
  return ExitStatus("longwave generate", Generate(options));
}

void PrintSample(const std::string& run_folder) {
  constexpr absl::Duration kPatience = absl::Seconds(30);
  constexpr size_t kLinesMax = 8;
  if (!std::filesystem::exists(run_folder + "/config.json")) return;
  const auto command = CommandOf({.folder = run_folder});
  if (!command.ok()) return;
  const auto ended = RunToEnd(*command, kPatience);
  if (!ended.ok() || !ended->well) return;
  PrintLine(stdout, "");
  PrintLine(stdout, "a sample of the model (longwave generate ", run_folder, ")");
  const std::vector<std::string> lines = absl::StrSplit(ended->output, '\n', absl::SkipEmpty());
  for (size_t i = 0; i < std::min(lines.size(), kLinesMax); ++i)
    PrintLine(stdout, FitWidth(absl::StrCat("    ", lines[i]), StyleOf(stdout).width));
  PrintLine(stdout, "");
}

}  // namespace longwave
