#ifndef LONGWAVE_TESTS_UNIT_SYNC_LEDGER_FIXTURE_H_
#define LONGWAVE_TESTS_UNIT_SYNC_LEDGER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "common/wire/crc32c.h"
#include "worker/sync/worker_ledger.h"

namespace longwave {

inline Buffer Bytes(const std::string& text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(std::byte(c));
  return Buffer(std::move(bytes));
}

inline std::string Text(const Buffer& buffer) {
  return std::string(reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size());
}

// "push 2/0" for a push of round 2 to segment 0, "hello 1" for one on connection 1.
inline std::string Say(const OutgoingFrame& frame) {
  const FrameName name = frame.header;
  const std::string kind(Name(name.kind));
  if (name.kind == FrameKind::kHello) return kind + " " + std::to_string(frame.connection);
  return kind + " " + std::to_string(name.round) + "/" + std::to_string(name.segment);
}

// "0/1 accepted down", "3/1 late compacted".
inline std::string Say(const Settled& one) {
  const char* fate = one.fate == Fate::kAccepted ? "accepted"
                     : one.fate == Fate::kLate   ? "late"
                                                 : "unknown";
  return std::to_string(one.round) + "/" + std::to_string(one.segment) + " " + fate + " " +
         (one.compacted ? "compacted" : Text(one.merged));
}

// "5/1 down", "snapshot 7/1 state", "up to 9/1", "refused 0/1: why".
inline std::string Say(const FetchEvent& event) {
  using Kind = FetchEvent::Kind;
  const std::string place = std::to_string(event.round) + "/" + std::to_string(event.segment);
  if (event.kind == Kind::kUpToDate) return "up to " + place;
  if (event.kind == Kind::kRefused) return "refused " + place + ": " + event.reason;
  return (event.kind == Kind::kSnapshot ? "snapshot " : "") + place + " " + Text(event.payload);
}

// A ledger with two connections and three segments: 0 and 2 on the first, 1 on the second. Both
// shards have answered the first hello.
class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest()
      : ledger_({.run = kRun,
                 .worker = kWorker,
                 .connections = {0, 1, 0},
                 .connection_count = 2,
                 .download_bytes_per_s = 4000,
                 .hello_every = kHelloEvery,
                 .snapshot_bytes = {}}) {}

  static constexpr uint64_t kRun = 7;
  static constexpr uint32_t kWorker = 3;
  static constexpr absl::Duration kHelloEvery = absl::Seconds(2);
  static constexpr uint64_t kIncarnation = 77;

  void SetUp() override {
    EXPECT_THAT(SendAll(), ::testing::ElementsAre("hello 0", "hello 1"));
    AnswerHellos();
  }

  // Sends everything that is due now, and returns it.
  std::vector<std::string> SendAll() {
    std::vector<std::string> sent;
    while (const auto frame = ledger_.NextFrame(now_)) {
      sent.push_back(Say(*frame));
      Sent(*frame);
      if (sent.size() > 100) break;
    }
    return sent;
  }
  // Lets time pass, with everything due in it and answers to all hellos. Returns the frames sent,
  // without hellos.
  std::vector<std::string> PassAlive(absl::Duration time) {
    std::vector<std::string> sent;
    const absl::Time end = now_ + time;
    for (int turn = 0; turn < 10'000; ++turn) {
      while (const auto frame = ledger_.NextFrame(now_)) {
        Sent(*frame);
        if (frame->header.kind() == FrameKind::kHello) {
          AnswerHello(frame->connection, kIncarnation);
        } else {
          sent.push_back(Say(*frame));
        }
      }
      if (now_ >= end) break;
      now_ = std::min(end, std::max(now_, ledger_.DueAt()));
    }
    return sent;
  }
  void Pass(absl::Duration time) { now_ += time; }
  void Sent(const OutgoingFrame& frame) {
    if (const auto* hello = std::get_if<HelloFrame>(&frame.header)) {
      shards_[frame.connection].hello = hello->frames_sent;
    } else if (frame.header.kind() != FrameKind::kSnapshot) {
      asked_[frame.header.segment()] = frame.header.kind();
    }
    ledger_.Sent(frame, now_);
  }
  // Loses so many of the frames that were sent on the connection.
  void LoseThere(uint32_t connection) { ++shards_[connection].missing; }
  // The shard has sent a frame that does not arrive.
  void LoseHere(uint32_t connection) { ++shards_[connection].sent; }
  // The shard's next frame.
  void Deliver(uint32_t connection, const FrameHeader& header, const Buffer& payload = Buffer()) {
    ledger_.OnFrame(connection, header, payload, now_);
    ++shards_[connection].sent;
  }
  // Lets time pass until the next hello, answers it, and returns the frames sent then.
  std::vector<std::string> PassHello() { return PassAlive(kHelloEvery); }

  absl::Status TryPost(uint32_t round, uint32_t segment) {
    return ledger_.Post({.epoch = 5,
                         .round = round,
                         .segment = segment,
                         .payload = Bytes("up"),
                         .norm = 2,
                         .weight = 9},
                        now_);
  }
  void Post(uint32_t round, uint32_t segment) {
    const absl::Status posted = TryPost(round, segment);
    ASSERT_TRUE(posted.ok()) << posted;
  }
  void Fetch(uint32_t segment, uint32_t from, uint32_t until = kRoundNever) {
    const absl::Status wanted = ledger_.Fetch(segment, from, until, now_);
    ASSERT_TRUE(wanted.ok()) << wanted;
  }

  void PostSnapshot(uint32_t segment, uint32_t round, const std::string& payload = "state") {
    const absl::Status posted = ledger_.PostSnapshot(segment, round, Bytes(payload), now_);
    ASSERT_TRUE(posted.ok()) << posted;
  }

  void AnswerHello(uint32_t connection, uint64_t incarnation,
                   Outcome outcome = Outcome::kAccepted) {
    const Shard& shard = shards_[connection];
    Deliver(connection, WelcomeFrame{.outcome = outcome,
                                     .run = kRun,
                                     .frames_missing = shard.missing,
                                     .frames_sent = shard.hello,
                                     .incarnation = incarnation,
                                     .shard_frames_sent = shard.sent});
  }
  void AnswerHellos() {
    for (const uint32_t connection : {0, 1}) AnswerHello(connection, kIncarnation);
  }
  // To the last frame of the segment, or to a push.
  void Answer(uint32_t round, uint32_t segment, Outcome outcome, uint32_t open_round = 0,
              const std::string& payload = "") {
    const auto asked = asked_.find(segment);
    AnswerFrame answer{.outcome = outcome,
                       .run = kRun,
                       .round = round,
                       .segment = segment,
                       .open_round = open_round,
                       .to = asked == asked_.end() ? FrameKind::kPush : asked->second};
    // Shards say of which push: of the one that Post has made.
    if (outcome == Outcome::kDuplicate) answer.held_crc = duplicate_crc_;
    Deliver(segment % 2, answer, Bytes(payload));
  }
  // The snapshot has arrived.
  void AnswerSnapshot(uint32_t round, uint32_t segment) {
    Deliver(segment % 2, AnswerFrame{.outcome = Outcome::kAccepted,
                                     .run = kRun,
                                     .round = round,
                                     .segment = segment,
                                     .to = FrameKind::kSnapshot});
  }
  void Merged(uint32_t round, uint32_t segment, const std::string& payload = "down") {
    Deliver(segment % 2, MergedFrame{.run = kRun, .round = round, .segment = segment},
            Bytes(payload));
  }
  void Snapshot(uint32_t round, uint32_t segment, const std::string& payload = "state") {
    Deliver(segment % 2, SnapshotFrame{.run = kRun, .round = round, .segment = segment},
            Bytes(payload));
  }
  void Request(uint32_t round, uint32_t segment) {
    Deliver(segment % 2, RequestFrame{.run = kRun, .round = round, .segment = segment});
  }

  std::vector<std::string> Settle() {
    std::vector<std::string> settled;
    while (const auto one = ledger_.TakeSettled()) settled.push_back(Say(*one));
    return settled;
  }
  std::vector<std::string> TakeFetched() {
    std::vector<std::string> events;
    while (const auto event = ledger_.TakeFetched()) events.push_back(Say(*event));
    return events;
  }

  struct Shard {
    uint32_t hello = 0;    // frames that were sent before the last one
    uint32_t missing = 0;  // of these
    uint32_t sent = 0;
  };
  std::array<Shard, 2> shards_;          // by connection
  std::map<uint32_t, FrameKind> asked_;  // by segment: its last frame
  uint32_t duplicate_crc_ = Crc32c(Bytes("up").bytes());
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(5);
  WorkerLedger ledger_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_SYNC_LEDGER_FIXTURE_H_
