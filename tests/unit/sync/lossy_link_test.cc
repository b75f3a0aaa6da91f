#include <algorithm>
#include <map>
#include <set>

#include "common/base/rng.h"
#include "tests/unit/sync/ledger_fixture.h"

namespace longwave {
namespace {

constexpr uint64_t kRun = 7;
constexpr uint32_t kSegments = 3;

// A minimal shard with a log: its pushes, its closed rounds, and the kept ones. Rounds may close
// without the worker under test, which is one of many.
class FakeShard {
 public:
  FakeShard(uint64_t seed, std::vector<std::pair<FrameHeader, std::string>>* out)
      : rng_(seed), out_(out) {}

  void OnFrame(const FrameHeader& header) {
    const uint32_t taken = taken_++;
    const FrameName asked = header;
    switch (asked.kind) {
      case FrameKind::kHello: {
        const uint32_t counted = std::get<HelloFrame>(header).frames_sent;
        return Send(WelcomeFrame{.run = kRun,
                                 .frames_missing = counted - taken,
                                 .frames_sent = counted,
                                 .incarnation = incarnation_,
                                 .shard_frames_sent = sent_},
                    "");
      }
      case FrameKind::kPush:
        return TakePush(asked);
      case FrameKind::kPull:
        if (asked.round < KeptFrom(asked)) return AnswerOpen(asked, Outcome::kCompacted);
        if (asked.round < Of(asked).open) SendMerged(asked.segment, asked.round);
        return;
      case FrameKind::kFetch:
        if (asked.round < KeptFrom(asked) || Chance(0.2)) {
          const uint32_t round = std::max(KeptFrom(asked), asked.round);
          if (round > asked.round && round <= Of(asked).open) {
            return Send(SnapshotFrame{.run = kRun, .round = round, .segment = asked.segment},
                        "state " + std::to_string(round));
          }
        }
        return AnswerOpen(asked, Outcome::kAccepted);
      default:
        ADD_FAILURE() << "a worker sends no " << Name(asked.kind);
    }
  }

  // A quorum of others closes the segment's open round.
  void CloseWithoutThisOne(uint32_t segment) { Close(segment, false); }
  // Everything before is no longer in the log, but in a snapshot.
  void Forget(uint32_t before) { kept_from_ = std::max(kept_from_, before); }
  // Another incarnation, as stated in answers to hellos.
  void Restart() { ++incarnation_; }

  uint32_t open(uint32_t segment) const { return states_[segment].open; }
  bool took(uint32_t segment, uint32_t round) const {
    return states_[segment].taken.contains(round);
  }

 private:
  struct State {
    uint32_t open = 0;
    bool accepted = false;
    std::set<uint32_t> taken;  // rounds that this worker is in
  };

  bool Chance(double share) { return rng_.Uniform() < share; }
  State& Of(const FrameName& asked) { return states_[asked.segment]; }
  // No segment's log begins behind its open round.
  uint32_t KeptFrom(const FrameName& asked) { return std::min(kept_from_, Of(asked).open); }

  void TakePush(const FrameName& asked) {
    State& state = Of(asked);
    if (asked.round < KeptFrom(asked)) return AnswerOpen(asked, Outcome::kCompacted);
    if (asked.round < state.open) {
      AnswerOpen(asked, state.taken.contains(asked.round) ? Outcome::kDuplicate : Outcome::kLate);
      return SendMerged(asked.segment, asked.round);
    }
    if (state.accepted) return AnswerOpen(asked, Outcome::kDuplicate);
    if (Chance(0.2)) return AnswerOpen(asked, Chance(0.5) ? Outcome::kBusy : Outcome::kNotMember);
    state.accepted = true;
    AnswerOpen(asked, Outcome::kAccepted);
    if (Chance(0.7)) Close(asked.segment, true);
  }

  void Close(uint32_t segment, bool sends) {
    State& state = states_[segment];
    if (std::exchange(state.accepted, false)) state.taken.insert(state.open);
    const uint32_t round = state.open++;
    if (sends || Chance(0.7)) return SendMerged(segment, round);
    ++sent_;  // the shard had no space for the frame
  }

  void AnswerOpen(const FrameName& asked, Outcome outcome) {
    AnswerFrame answer{.outcome = outcome,
                       .run = kRun,
                       .round = asked.round,
                       .segment = asked.segment,
                       .open_round = Of(asked).open,
                       .to = asked.kind};
    if (outcome == Outcome::kDuplicate) answer.held_crc = Crc32c(Bytes("up").bytes());
    Send(answer, "");
  }
  void SendMerged(uint32_t segment, uint32_t round) {
    Send(MergedFrame{.run = kRun, .round = round, .segment = segment}, std::to_string(round));
  }
  void Send(const FrameHeader& header, const std::string& payload) {
    ++sent_;
    out_->push_back({header, payload});
  }

  Rng rng_;
  std::vector<std::pair<FrameHeader, std::string>>* const out_;
  std::array<State, kSegments> states_;
  uint32_t kept_from_ = 0;
  uint64_t incarnation_ = 1;
  uint32_t taken_ = 0;
  uint32_t sent_ = 0;
};

// A worker's segments: each contributes round after round, and catches up if it is behind.
class Worker {
 public:
  explicit Worker(uint64_t seed) : rng_(seed), shard_(seed + 1000, &back_) {}

  // Rounds that were settled, until every segment has contributed `rounds` times.
  void Run(uint32_t rounds) {
    for (int turn = 0; turn < 200'000; ++turn) {
      bool done = true;
      for (uint32_t s = 0; s < kSegments; ++s) {
        if (posted_[s] < rounds) done = false;
        if (posted_[s] < rounds && idle_[s]) Post(s);
      }
      if (done && std::all_of(idle_.begin(), idle_.end(), [](bool idle) { return idle; })) return;
      Exchange();
      Settle();
      TakeFetched();
      if (rng_.Uniform() < 0.02) shard_.Restart();
      if (rng_.Uniform() < 0.05) shard_.CloseWithoutThisOne(Any());
      if (rng_.Uniform() < 0.02) {
        for (int i = 0; i < 12; ++i) shard_.CloseWithoutThisOne(Any());
        if (rng_.Uniform() < 0.5) shard_.Forget(shard_.open(Any()));
      }
      now_ += absl::Milliseconds(500);
    }
    ADD_FAILURE() << "no end";
  }

  uint32_t settled() const { return settled_; }
  uint32_t gone() const { return gone_; }
  uint32_t fetches() const { return fetches_; }
  uint32_t snapshots() const { return snapshots_; }

 private:
  uint32_t Any() { return static_cast<uint32_t>(rng_.Uniform() * kSegments) % kSegments; }

  void Post(uint32_t segment) {
    const absl::Status posted = ledger_.Post({.round = next_[segment],
                                              .segment = segment,
                                              .payload = Bytes("up"),
                                              .norm = 1,
                                              .weight = 1},
                                             now_);
    ASSERT_TRUE(posted.ok()) << posted;
    ++posted_[segment];
    idle_[segment] = false;
  }

  // Frames are lost both ways.
  void Exchange() {
    while (const auto frame = ledger_.NextFrame(now_)) {
      ledger_.Sent(*frame, now_);
      if (rng_.Uniform() < 0.8) shard_.OnFrame(frame->header);
    }
    for (const auto& [header, payload] : back_) {
      if (rng_.Uniform() < 0.8) ledger_.OnFrame(0, header, Bytes(payload), now_);
    }
    back_.clear();
  }

  void Settle() {
    while (const std::optional<Settled> taken = ledger_.TakeSettled()) {
      const Settled& settled = *taken;
      const uint32_t s = settled.segment;
      ASSERT_EQ(settled.round, next_[s]);
      ++settled_;
      if (settled.fate != Fate::kUnknown) {
        EXPECT_EQ(settled.fate == Fate::kAccepted, shard_.took(s, settled.round));
      }
      EXPECT_EQ(Text(settled.merged), settled.compacted ? "" : std::to_string(settled.round));
      next_[s] += settled.compacted ? 0 : 1;
      gone_ += settled.compacted;
      const bool behind = settled.compacted || shard_.open(s) > next_[s];
      if (!behind) {
        idle_[s] = true;
        continue;
      }
      ++fetches_;
      const bool to_present = rng_.Uniform() < 0.5;
      const uint32_t until = to_present ? kRoundNever : shard_.open(s);
      const absl::Status wanted = ledger_.Fetch(s, next_[s], until, now_);
      ASSERT_TRUE(wanted.ok()) << wanted;
    }
  }

  void TakeFetched() {
    while (const auto event = ledger_.TakeFetched()) {
      uint32_t& next = next_[event->segment];
      if (!event->payload.empty()) {
        const FetchEvent* const fetched = &*event;
        if (fetched->kind == FetchEvent::Kind::kSnapshot) {
          ++snapshots_;
          ASSERT_GT(fetched->round, next);
          EXPECT_EQ(Text(fetched->payload), "state " + std::to_string(fetched->round));
          next = fetched->round;
        } else {
          ASSERT_EQ(fetched->round, next++);
          EXPECT_EQ(Text(fetched->payload), std::to_string(fetched->round));
        }
        EXPECT_LE(next, shard_.open(fetched->segment));
        continue;
      }
      ASSERT_EQ(event->kind, FetchEvent::Kind::kUpToDate);
      EXPECT_EQ(event->round, next);
      idle_[event->segment] = true;
    }
  }

  Rng rng_;
  std::vector<std::pair<FrameHeader, std::string>> back_;  // on their way to the worker
  FakeShard shard_;
  absl::Time now_ = absl::UnixEpoch();
  WorkerLedger ledger_{
      {.run = kRun, .connections = {0, 0, 0}, .connection_count = 1, .snapshot_bytes = {}}};
  std::array<uint32_t, kSegments> next_ = {};    // round of each segment
  std::array<uint32_t, kSegments> posted_ = {};  // how often
  std::array<bool, kSegments> idle_ = {true, true, true};
  uint32_t settled_ = 0;
  uint32_t gone_ = 0;
  uint32_t fetches_ = 0;
  uint32_t snapshots_ = 0;
};

// Every contribution settles once, with the fate that the shard knows of, and every round reaches
// the replica once and in order, through an update or a snapshot, whatever the link, the shard and
// the other workers do.
TEST(LossyLink, SettlesEachContributionOnceAndMissesNoRound) {
  uint32_t gone = 0, fetches = 0, snapshots = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Worker worker(seed);
    worker.Run(25);
    if (HasFailure()) return;
    EXPECT_EQ(worker.settled(), 25 * kSegments);
    gone += worker.gone();
    fetches += worker.fetches();
    snapshots += worker.snapshots();
  }
  // The paths that are rare were taken.
  EXPECT_GT(gone, 20u);
  EXPECT_GT(fetches, 200u);
  EXPECT_GT(snapshots, 20u);
}

}  // namespace
}  // namespace longwave
