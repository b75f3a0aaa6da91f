// A real process on the machine's own disk, killed in the midst of its work, again and again.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "server/store/posix_file_system.h"
#include "tests/support/test_folder.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

constexpr uint32_t kRoundsMax = 1'000'000;  // more than a child lives to see

absl::StatusOr<std::unique_ptr<DurableShard>> OpenOnMachine(FileSystem* files,
                                                            const std::string& folder) {
  const Layout layout = FourSegments();
  ShardStoreOptions options;
  options.identity = {kRun, 1, layout.hash()};
  options.log.file_bytes_max = 4096;
  DurableShardOptions shard = TestOptions();
  shard.can_catch_up = false;  // no member answers requests in this test
  return DurableShard::Open(shard, layout,
                            [=] { return ShardStore::Open(files, folder, options); });
}

// A message of the child to its parent, once it is durable: a round of a segment is closed.
struct Told {
  uint32_t segment = 0;
  uint32_t round = 0;
};

[[noreturn]] void RunChild(const std::string& folder, int pipe) {
  const auto files = MakePosixFileSystem();
  const auto opened = OpenOnMachine(files.get(), folder);
  if (!opened.ok()) _exit(2);
  DurableShard& shard = **opened;
  const absl::Time now = absl::UnixEpoch();
  shard.Step(MembershipChanged{Members(1, {0, 1})}, now);
  for (uint32_t round = shard.state().open_round; round < kRoundsMax; ++round) {
    for (uint32_t worker = 0; worker < 2; ++worker) {
      for (uint32_t segment = 2; segment < 4; ++segment) {
        shard.Step(TestPush(worker, round, segment), now);
      }
      for (const auto& merged : AllSent<MergedFrame>(shard.Commit(now))) {
        const Told told{merged.header.segment, merged.header.round};
        if (write(pipe, &told, sizeof(told)) != sizeof(told)) _exit(3);
      }
      shard.Tend(now);
    }
    if (!shard.trouble().empty()) _exit(4);
  }
  _exit(5);
}

TEST(KilledShard, HasAllThatItTold) {
  const TestFolder folder;
  const auto files = MakePosixFileSystem();
  for (uint32_t kills = 0; kills < 6; ++kills) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      RunChild(folder.path(), ends[1]);
    }
    close(ends[1]);
    // Each kill comes at another moment, after so many updates.
    std::vector<uint32_t> closed(4, 0);
    Told told;
    for (uint32_t i = 0; i < 5 + 7 * kills; ++i) {
      ASSERT_EQ(read(ends[0], &told, sizeof(told)), static_cast<ssize_t>(sizeof(told)));
      closed[told.segment] = told.round + 1;
    }
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it had ended itself with " << WEXITSTATUS(status);
    while (read(ends[0], &told, sizeof(told)) == static_cast<ssize_t>(sizeof(told))) {
      closed[told.segment] = told.round + 1;
    }
    close(ends[0]);

    const auto shard = OpenOnMachine(files.get(), folder.path());
    ASSERT_TRUE(shard.ok()) << shard.status();
    for (uint32_t segment = 2; segment < 4; ++segment) {
      EXPECT_GE((*shard)->aggregator()->open_round(segment), closed[segment]);
      (*shard)->Step(TestPull(0, closed[segment] - 1, segment), absl::UnixEpoch());
    }
    EXPECT_EQ(AllSent<MergedFrame>((*shard)->Commit(absl::UnixEpoch())).size(), 2u);
  }
}

}  // namespace
}  // namespace longwave
