#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/cluster.h"
#include "common/base/threads.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ProcessTest : public testing::Test {
 protected:
  std::unique_ptr<Process> Shell(const std::string& script) {
    auto process = Process::Start({.name = "child",
                                   .argv = {"/bin/sh", "-c", script},
                                   .log_file = folder_ + "/child.log",
                                   .environment = {{"LONGWAVE_TEST", "42"}},
                                   .is_command = true});
    EXPECT_TRUE(process.ok()) << process.status();
    return *std::move(process);
  }

  // Blocks for the next line; nothing at the end of the output.
  static std::optional<std::string> NextLine(Process* process) {
    while (true) {
      if (auto line = process->ReadLine()) return line;
      if (process->output_fd() < 0) return std::nullopt;
      pollfd fd = {process->output_fd(), POLLIN, 0};
      poll(&fd, 1, -1);
    }
  }

  static void AwaitEnd(Process* process) {
    while (NextLine(process)) {
    }
    while (process->Running()) poll(nullptr, 0, 1);
  }

  const TestFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(ProcessTest, GivesOutputLineByLineAndTheEnvironment) {
  auto child = Shell("printf 'one\\ntw'; printf \"o $LONGWAVE_TEST\\nrest\"");
  EXPECT_EQ(NextLine(child.get()), "one");
  EXPECT_EQ(NextLine(child.get()), "two 42");
  EXPECT_EQ(NextLine(child.get()), std::nullopt);
  AwaitEnd(child.get());
  EXPECT_TRUE(child->succeeded());
}

TEST_F(ProcessTest, FailsWithTheLastErrorLineOfItsLog) {
  auto child = Shell("echo 'error: first' >&2; echo 'error: second' >&2; echo bye >&2; exit 1");
  AwaitEnd(child.get());
  EXPECT_FALSE(child->succeeded());
  EXPECT_EQ(child->FailureSentence(), "second");
}

TEST_F(ProcessTest, IsNotReadForEverWhereItPrintsForEver) {
  auto child = Shell("exec yes");
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(NextLine(child.get()), "y");
}

TEST_F(ProcessTest, GivesALineWithoutAnEndInParts) {
  auto child = Shell("head -c 200000 /dev/zero | tr '\\0' x; echo");
  std::string all;
  while (const auto part = NextLine(child.get())) {
    EXPECT_LT(part->size(), 70'000u);
    all += *part;
  }
  EXPECT_EQ(all, std::string(200'000, 'x'));
}

// Earlier processes of the name wrote into the same log.
TEST_F(ProcessTest, FailsWithItsStatusOrSignalWhenTheLogSaysNothingOfIt) {
  AwaitEnd(Shell("echo 'error: no space left' >&2; exit 1").get());
  auto exits = Shell("exit 3");
  AwaitEnd(exits.get());
  EXPECT_THAT(exits->FailureSentence(), StartsWith("ended early with exit status 3; see "));
  auto killed = Shell("kill -9 $$");
  AwaitEnd(killed.get());
  EXPECT_THAT(killed->FailureSentence(), HasSubstr("signal 9 (Killed)"));
}

TEST_F(ProcessTest, SaysWhyAProgramCannotBeRun) {
  const auto process = Process::Start(
      {.name = "worker-0", .argv = {"/no/such/program"}, .log_file = folder_ + "/log"});
  EXPECT_EQ(process.status().message(),
            "cannot start worker-0 (/no/such/program): No such file or directory");
}

TEST_F(ProcessTest, HasItsOwnProcessGroupAndDefaultSignals) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  auto child = Shell("echo up; exec sleep 1000");
  sigprocmask(SIG_SETMASK, &before, nullptr);
  ASSERT_EQ(NextLine(child.get()), "up");
  EXPECT_EQ(getpgid(child->pid()), child->pid());
  child->Signal(SIGTERM);  // would stay pending, were it still blocked
  AwaitEnd(child.get());
  EXPECT_THAT(child->FailureSentence(), HasSubstr("signal 15"));
}

TEST_F(ProcessTest, IsKilledWithItsObject) {
  auto child = Shell("trap '' TERM; echo up; while :; do sleep 1000; done");
  ASSERT_EQ(NextLine(child.get()), "up");
  const pid_t pid = child->pid();
  child.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(ProcessTest, LeavesNothingBehindThatItHasStarted) {
  auto child = Shell("sleep 1000 & echo $!");
  pid_t left = 0;
  ASSERT_TRUE(absl::SimpleAtoi(*NextLine(child.get()), &left));
  while (child->Running()) poll(nullptr, 0, 1);
  EXPECT_TRUE(child->succeeded());
  // The sleeper holds the pipe's other end; the end of its output is its own end.
  AwaitEnd(child.get());
  EXPECT_EQ(child->output_fd(), -1);
}

// A command that a shell wraps, `sh -c 'python train.py; true'`, is the child's child.
TEST_F(ProcessTest, EndsWithItsParentTogetherWithWhatItHasStarted) {
  int held[2];  // by the parent, the child and the child's child, until the last of them ends
  ASSERT_EQ(pipe(held), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto child = Shell(absl::StrCat("sleep 1000 & echo >&", held[1], "; wait; true"));
    while (true) pause();
  }
  close(held[1]);
  char started;
  ASSERT_EQ(read(held[0], &started, 1), 1);
  kill(parent, SIGKILL);
  pollfd end = {held[0], POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 10'000), 1) << "the child's child lives on";
  close(held[0]);
  waitpid(parent, nullptr, 0);
}

TEST(LastErrorLine, IsTheClosingLineOfATraceback) {
  const std::string traceback =
      "error: of before\nTraceback (most recent call last):\n  File \"train.py\", line 3\n    "
      "x = y\nNameError: name 'y' is not defined\nbye\n";
  EXPECT_EQ(LastErrorLine(traceback), "NameError: name 'y' is not defined");
  EXPECT_EQ(LastErrorLine(traceback + "error: behind it\n"), "behind it");
}

TEST(LastErrorLine, IsEmptyWithoutOne) {
  EXPECT_EQ(LastErrorLine("warning: error: not this\nerror of sorts\n"), "");
  EXPECT_EQ(LastErrorLine("error: a\nx\nerror: b"), "b");
}

TEST(WorkerThreads, ShareTheCoresUnlessConfigured) {
  RunConfig config;
  config.run.workers = 4;
  EXPECT_EQ(WorkerThreads(config), DefaultThreads(4));
  config.train.threads = 3;
  EXPECT_EQ(WorkerThreads(config), 3u);
}

}  // namespace
}  // namespace longwave
