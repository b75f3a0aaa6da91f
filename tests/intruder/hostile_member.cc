// Members of a run, each with a valid certificate, that send arbitrary messages while honest
// workers train in it: control messages and frames drawn from a seed. For any duration, no honest
// process ends, no run ends wrongly, and no raw byte of theirs reaches a terminal.
//
//   hostile_member_test [--seed N] [--minutes M]
//
// The program runs one run of the seed, or runs of the following seeds, too, until so many minutes
// are over. The processes' reactions differ each time: a seed determines the draws, not their
// timing. The hostile members are a minority, since by design a majority determines the run.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/intruder/guest.h"
#include "tests/intruder/hostile_calls.h"
#include "tests/intruder/hostile_frames.h"
#include "tests/intruder/run_watch.h"
#include "tests/intruder/secured_run.h"

namespace longwave {
namespace {

uint64_t seed = 1;
double minutes = 0;
uint64_t steps = 1000;

constexpr int kHonest = 4;
constexpr uint64_t kInnerSteps = 20;
// Names that a label, a column, a sentence or a path might trip over.
const char* const kNames[] = {"mallory\"} 1 {x=\"", "-rf ../ {}%s% worker-0 finished", "uninvited"};
constexpr absl::Duration kPace = absl::Milliseconds(5);

// A guest at work in its own thread.
class Hostile {
 public:
  Hostile(SecuredRun* run, Guest guest, bool may_register, uint64_t stream)
      : guest_(std::move(guest)),
        rng_(seed, stream),
        calls_(run->address(), &guest_, may_register, &beliefs_, &rng_),
        frames_(&guest_, &beliefs_, &rng_),
        thread_([this] { Work(); }) {}
  ~Hostile() { End(); }

  void End() {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
  }
  const HostileCalls& calls() const { return calls_; }
  const HostileFrames& frames() const { return frames_; }

 private:
  void Work() {
    while (!ending_) {
      // Now and then many at once.
      const uint64_t calls = OneIn(rng_, 400) ? 50 : OneIn(rng_, 4) ? 1 : 0;
      for (uint64_t i = 0; i < calls && !ending_; ++i) calls_.Act();
      const uint64_t frames = OneIn(rng_, 400) ? 500 : 1;
      for (uint64_t i = 0; i < frames && !ending_; ++i) frames_.Act();
      absl::SleepFor(kPace);
    }
  }

  const Guest guest_;
  Beliefs beliefs_;
  Rng rng_;
  HostileCalls calls_;
  HostileFrames frames_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

void AddTo(std::map<std::string, uint64_t>* sums, const std::map<std::string, uint64_t>& counts) {
  for (const auto& [what, count] : counts) (*sums)[what] += count;
}

// Counts of sent messages and of their answers, over all runs.
std::map<std::string, uint64_t> counts;

void RunOfSeed() {
  Rng rng(seed, 1000);
  // Three codecs: sign, fp32 and int2.
  static const std::vector<std::string> kPresets = {"longwave", "diloco", "sparseloco"};
  const std::string& preset = kPresets[seed % kPresets.size()];
  // Some are there before the first round.
  const uint64_t rounds = OneIn(rng, 4) ? 0 : 2;
  std::printf("seed %llu: preset %s, from round %llu on\n", static_cast<unsigned long long>(seed),
              preset.c_str(), static_cast<unsigned long long>(rounds));
  std::fflush(stdout);
  const auto run = SecuredRun::Start(
      {"preset=" + preset, absl::StrCat("run.steps=", steps), absl::StrCat("run.workers=", kHonest),
       absl::StrCat("sync.inner_steps=", kInnerSteps), "sync.segment_tiles=1", "sync.quorum=0.6",
       "cluster.state_rounds=8", "cluster.snapshot_rounds=20", "cluster.checkpoint_rounds=4",
       "cluster.start_timeout_s=30", "metrics.listen=127.0.0.1:0"},
      rounds);
  ASSERT_NE(run, nullptr);
  std::vector<Guest> guests;
  for (const char* const name : kNames) {
    auto guest = Admit(run.get(), name);
    ASSERT_TRUE(guest.has_value()) << name;
    guests.push_back(*std::move(guest));
  }
  RunWatch watch(run.get(), static_cast<uint32_t>(steps / kInnerSteps));
  std::vector<std::unique_ptr<Hostile>> hostile;
  for (Guest& guest : guests) {
    const bool may_register = guest.name != "uninvited";
    hostile.push_back(
        std::make_unique<Hostile>(run.get(), std::move(guest), may_register, hostile.size()));
  }
  while (!watch.over()) {
    watch.Look();
    absl::SleepFor(absl::Milliseconds(200));
  }
  for (const auto& one : hostile) {
    one->End();
    AddTo(&counts, one->calls().answers());
    AddTo(&counts, one->frames().counts());
    for (const std::string& breach : one->calls().breaches()) ADD_FAILURE() << breach;
  }
  std::printf("  %s\n", watch.Figures().c_str());
  std::fflush(stdout);
  watch.ExpectAGoodEnd();
}

// The check of texts is itself checked with texts.
TEST(HostileMember, TextsThatATerminalWouldObeyAreFound) {
  EXPECT_EQ(FindRaw("a line\nw\xc3\xb6rter, \\x1b[2J and FORGED in its midst\n"), "");
  for (const char* const text :
       {"\x1b[2J", "a\rb",
        "\xc2\x9b"
        "2J",
        "\xe2\x80\xae", "\xe2\x80\xa8", "\xff", "\x7f", "a\nFORGED", "a\n  FORGED"}) {
    EXPECT_NE(FindRaw(text), "") << text;
  }
  EXPECT_NE(FindRaw(std::string(20'000, 'x')), "");
}

TEST(HostileMember, HarmsNobody) {
  const absl::Time end = absl::Now() + absl::Minutes(minutes);
  do {
    RunOfSeed();
    if (HasFailure()) {
      std::printf("failed with --seed %llu\n", static_cast<unsigned long long>(seed));
      return;
    }
    ++seed;
  } while (absl::Now() < end);
  for (const auto& [what, count] : counts)
    std::printf("  %-28s %llu\n", what.c_str(), static_cast<unsigned long long>(count));
  // A guest that was never admitted has tried nothing.
  for (const char* const what : {"RegisterWorker ok", "WorkerHeartbeat ok", "hello accepted",
                                 "push accepted", "push rejected", "StopRun code 7"}) {
    EXPECT_GT(counts[what], 0u) << what;
  }
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  CLI::App app("Hostile members in runs of honest workers.", "hostile_member_test");
  app.add_option("--seed", longwave::seed, "Of what the first run's hostile members send");
  app.add_option("--minutes", longwave::minutes, "Goes on with the next seeds for so long");
  app.add_option("--steps", longwave::steps, "Inner steps of each run");
  CLI11_PARSE(app, argc, argv);
  return RUN_ALL_TESTS();
}
