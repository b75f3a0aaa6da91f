#include "cli/generate.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/programs/programs.h"
#include "common/base/errors.h"
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

absl::StatusOr<std::vector<std::string>> SampleLines(const GenerateOptions& options,
                                                     absl::Duration patience) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> command, CommandOf(options));
  LONGWAVE_ASSIGN_OR_RETURN(const Ended ended, RunToEnd(command, patience));
  if (!ended.well) return Unavailable(ended.output);
  return std::vector<std::string>(absl::StrSplit(ended.output, '\n', absl::SkipEmpty()));
}

}  // namespace longwave
