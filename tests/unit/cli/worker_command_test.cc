#include "cli/worker_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseWorkerCommand, SplitsWordsAsAShellDoes) {
  EXPECT_THAT(*ParseWorkerCommand("  /bin/sh train.py\t--steps 10\n"),
              ElementsAre("/bin/sh", "train.py", "--steps", "10"));
  EXPECT_THAT(*ParseWorkerCommand(R"(/bin/sh 'my text' "a \"b\" \\ \n $HOME" c\ d '' 'e'"f"g)"),
              ElementsAre("/bin/sh", "my text", R"(a "b" \ \n $HOME)", "c d", "", "efg"));
}

TEST(ParseWorkerCommand, FindsTheProgramInPath) {
  const auto words = ParseWorkerCommand("sh -c true");
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_THAT(words->front(), testing::EndsWith("/sh"));
  EXPECT_EQ(words->front().front(), '/');
}

TEST(ParseWorkerCommand, NamesWhatIsNoCommand) {
  EXPECT_EQ(ParseWorkerCommand(" ").status().message(),
            "--worker-command: got an empty command, wanted one such as 'python train.py'");
  EXPECT_EQ(ParseWorkerCommand("sh 'train.py").status().message(),
            "--worker-command: got a ' without a second one in sh 'train.py");
  for (const char* missing : {"no-such-program train.py", "/no/such/program", "/etc/passwd x"}) {
    const absl::Status status = ParseWorkerCommand(missing).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("wanted a program that can be run"));
  }
}

}  // namespace
}  // namespace longwave
