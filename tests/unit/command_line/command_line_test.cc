#include "common/command_line/command_line.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace longwave {
namespace {

struct Outcome {
  std::optional<int> status;
  std::string output;
  std::string errors;
};

// Parses for a program with a command that needs a file, and one with commands of its own.
Outcome Parse(std::vector<std::string> words) {
  CLI::App app("A program of this test", "prog");
  app.require_subcommand(1);
  std::string file, name;
  CLI::App* const run = app.add_subcommand("run", "Runs a file");
  run->add_option("file", file)->required();
  run->add_option("--name", name)->check(NotEmpty());
  uint32_t count = 0;
  double rate = 0;
  run->add_option("--count", count);
  run->add_option("--rate", rate);
  CLI::App* const token = app.add_subcommand("token", "Tokens");
  token->require_subcommand(1);
  token->add_subcommand("make", "Makes one")->add_option("address", file)->required();

  words.insert(words.begin(), "/bin/prog");
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (std::string& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = ParseCommandLine(&app, static_cast<int>(argv.size()), argv.data(), "prog: ");
  outcome.errors = ::testing::internal::GetCapturedStderr();
  outcome.output = ::testing::internal::GetCapturedStdout();
  return outcome;
}

void ExpectRefused(const std::vector<std::string>& words, const std::string& sentence) {
  const Outcome outcome = Parse(words);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.errors, "prog: " + sentence + " (--help lists the options)\n");
}

TEST(ParseCommandLine, OfAGoodOneHasNothingToSay) {
  const Outcome outcome = Parse({"run", "file", "--name", "n"});
  EXPECT_EQ(outcome.status, std::nullopt);
  EXPECT_EQ(outcome.output + outcome.errors, "");
}

TEST(ParseCommandLine, NamesAnUnknownOptionThoughSomethingIsMissing) {
  ExpectRefused({"--bogus"}, "unknown option --bogus");
  ExpectRefused({"-x"}, "unknown option -x");
  ExpectRefused({"run", "--bogus"}, "unknown option --bogus");
  ExpectRefused({"run", "file", "--bogus=5"}, "unknown option --bogus");
  ExpectRefused({"run", "--bogus", "--name"}, "unknown option --bogus");
  ExpectRefused({"token", "--bogus"}, "unknown option --bogus");
  ExpectRefused({"token", "make", "--bogus"}, "unknown option --bogus");
  ExpectRefused({"run", "file", "--\x1b[2J"}, "unknown option --\\x1b[2J");
}

TEST(ParseCommandLine, NamesAnUnknownCommandOrArgument) {
  ExpectRefused({"frobnicate"}, "unknown command frobnicate");
  ExpectRefused({"token", "frobnicate"}, "unknown command frobnicate");
  ExpectRefused({"tokne"}, "unknown command tokne; did you mean token?");
  ExpectRefused({"token", "mak"}, "unknown command mak; did you mean make?");
  ExpectRefused({"ab"}, "unknown command ab");
  ExpectRefused({"run", "file", "another"}, "unexpected argument another");
}

TEST(ParseCommandLine, SaysWhatIsMissing) {
  ExpectRefused({}, "A subcommand is required");
  ExpectRefused({"run"}, "file is required");
}

TEST(ParseCommandLine, SaysWhatAValueIsAndWhatIsWanted) {
  ExpectRefused({"run", "file", "--name", ""}, "--name: got nothing, wanted a value");
  for (const char* const got : {"-1", "x = y", "99999999999"}) {
    ExpectRefused(
        {"run", "file", "--count", got},
        std::string("--count: got ") + got + ", wanted a whole number from 0 on, not too large");
  }
  ExpectRefused({"run", "file", "--rate=fast"}, "--rate: got fast, wanted a number, not too large");
}

TEST(ParseCommandLine, EveryProgramHasItsVersionAndHelp) {
  const Outcome version = Parse({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.output, "prog " LONGWAVE_VERSION "\n");
  const Outcome help = Parse({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.output.find("--version"), std::string::npos);
  EXPECT_EQ(version.errors + help.errors, "");
}

}  // namespace
}  // namespace longwave
