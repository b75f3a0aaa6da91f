#include "cli/generate.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "cli/initial_weights.h"
#include "cli/programs/programs.h"
#include "cli/report/report.h"
#include "cli/screen.h"
#include "cli/text.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"

namespace longwave {
namespace {

// Enough for the logs of a long run.
constexpr absl::Duration kReplayPatience = absl::Hours(1);

// The tokenizer.json that make_tokens has left beside the tokens of the run; empty: there is none.
std::string TokenizerOfData(const std::string& run_folder) {
  const auto config = LoadConfig(run_folder + "/config.yaml");
  if (!config.ok() || config->data.kind != "tokens") return "";
  const std::filesystem::path path(config->data.path);  // a file, a folder or a pattern
  for (const std::filesystem::path& folder : {path, path.parent_path()}) {
    std::error_code error;
    const std::filesystem::path file = folder / "tokenizer.json";
    if (std::filesystem::exists(file, error)) return file.string();
  }
  return "";
}

absl::StatusOr<std::vector<std::string>> CommandOf(const GenerateOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string binaries, WorkerFolder());
  std::vector<std::string> command = {absl::StrCat(binaries, "/longwave-worker"),
                                      absl::StrCat("--generate=", options.folder),
                                      absl::StrCat("--length=", options.length),
                                      absl::StrCat("--temperature=", options.temperature),
                                      absl::StrCat("--top-k=", options.top_k),
                                      absl::StrCat("--seed=", options.seed)};
  const std::string tokenizer =
      options.tokenizer.empty() ? TokenizerOfData(options.folder) : options.tokenizer;
  if (!tokenizer.empty()) command.push_back(absl::StrCat("--tokenizer=", tokenizer));
  // In one word with =, so that a prompt may begin with a dash; an empty one needs two words.
  if (options.prompt.empty()) {
    command.insert(command.end(), {"--prompt", ""});
  } else {
    command.push_back(absl::StrCat("--prompt=", options.prompt));
  }
  return command;
}

// The exit status of the program at its end.
absl::StatusOr<int> Await(const std::vector<std::string>& command) {
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child == 0) {
    execv(command[0].c_str(), PointersTo(command).data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Of a run that has not written its weights, since it is parked or trains: makes those of its last
// whole round, in a folder that goes at the end.
absl::StatusOr<int> GenerateFromLogs(GenerateOptions options) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string own, OwnFolder());
  LONGWAVE_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  LONGWAVE_ASSIGN_OR_RETURN(const Ended made,
                            RunToEnd({own + "/longwave", "replay", options.folder, "--weights",
                                      folder.path() + "/model.safetensors"},
                                     kReplayPatience));
  if (!made.well) {
    const std::vector<std::string> lines = absl::StrSplit(made.output, '\n', absl::SkipEmpty());
    return FailedPrecondition(options.folder, " has no weights yet, and they cannot be made: ",
                              lines.empty() ? "" : lines.back());
  }
  if (options.tokenizer.empty()) options.tokenizer = TokenizerOfData(options.folder);
  options.folder = folder.path();
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> command, CommandOf(options));
  return Await(command);
}

absl::StatusOr<int> Generate(const GenerateOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(options.folder + "/model.safetensors", error) &&
      std::filesystem::exists(options.folder + "/state/shard-0", error))
    return GenerateFromLogs(options);
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> command, CommandOf(options));
  return Become(command);
}

}  // namespace

int RunGenerate(const GenerateOptions& options) {
  const absl::StatusOr<int> status = Generate(options);
  return status.ok() ? *status : ExitStatus("longwave generate", status.status());
}

void PrintSample(const std::string& run_folder) {
  constexpr absl::Duration kPatience = absl::Seconds(30);
  constexpr size_t kLinesMax = 8;
  if (!std::filesystem::exists(run_folder + "/config.json")) return;
  const auto command = CommandOf({.folder = run_folder});
  if (!command.ok()) return;
  const auto ended = RunToEnd(*command, kPatience);
  if (!ended.ok() || !ended->well) return;
  if (absl::Status kept = WriteFile(run_folder + kSampleFile, ended->output); !kept.ok())
    PrintLine(stderr, "the report has no sample: ", kept.message());
  PrintLine(stdout, "");
  PrintLine(stdout, "a sample of the model (longwave generate ", run_folder, ")");
  const std::vector<std::string> lines = absl::StrSplit(ended->output, '\n', absl::SkipEmpty());
  for (size_t i = 0; i < std::min(lines.size(), kLinesMax); ++i)
    PrintLine(stdout, FitWidth(absl::StrCat("    ", lines[i]), StyleOf(stdout).width));
  PrintLine(stdout, "");
}

}  // namespace longwave
