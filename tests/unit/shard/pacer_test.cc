#include "server/shard/pacer.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace longwave {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);
constexpr size_t kPayloadBytes = 10'000;
constexpr uint64_t kFrameBytes = FrameWireBytes(kPayloadBytes, Encryption::kNone);
// A frame takes a tenth of a second, which is also a bucket's burst.
constexpr uint64_t kRate = 10 * kFrameBytes;

SendFrame Merged(uint32_t round, uint32_t segment, SendCause cause = SendCause::kClose) {
  const MergedFrame header{.round = round, .segment = segment};
  return SendUpdate({}, header, Buffer(std::vector<std::byte>(kPayloadBytes)), cause);
}

// Sends like a caller: an admitted frame is sent and charged.
bool Send(Pacer& pacer, uint32_t worker, const SendFrame& send, absl::Time now) {
  if (!pacer.Admit(worker, send, now)) return false;
  pacer.Charge(worker, send.frame.wire_bytes(Encryption::kNone), now);
  return true;
}
bool SendNext(Pacer& pacer, absl::Time now) {
  const std::optional<SendFrame> due = pacer.TakeDue(now);
  if (due.has_value())
    pacer.Charge(due->workers.front(), due->frame.wire_bytes(Encryption::kNone), now);
  return due.has_value();
}

// With a rate for worker 1, and so many frames for it, of segments from 0 on.
Pacer Limited(uint32_t frames = 0) {
  Pacer pacer;
  pacer.SetRate(1, kRate);
  for (uint32_t i = 0; i < frames; ++i) Send(pacer, 1, Merged(0, i), kStart);
  return pacer;
}

// A frame from the pacer: its time and receiver.
struct PacedFrame {
  absl::Duration at;
  uint32_t worker;
  uint32_t round;
  uint32_t segment;
  bool operator==(const PacedFrame&) const = default;
};
std::ostream& operator<<(std::ostream& out, const PacedFrame& sent) {
  return out << absl::FormatDuration(sent.at) << " worker " << sent.worker << " round "
             << sent.round << " segment " << sent.segment;
}
std::vector<PacedFrame> Drain(Pacer& pacer) {
  std::vector<PacedFrame> sent;
  while (pacer.NextDue() < absl::InfiniteFuture()) {
    const absl::Time now = pacer.NextDue();
    while (const std::optional<SendFrame> due = pacer.TakeDue(now)) {
      pacer.Charge(due->workers.front(), due->frame.wire_bytes(Encryption::kNone), now);
      sent.push_back({now - kStart, due->workers.front(), due->frame.header().round(),
                      due->frame.header().segment()});
    }
  }
  return sent;
}

TEST(Pacer, AWorkerWithoutALimitWaitsForNothing) {
  Pacer pacer;
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_TRUE(Send(pacer, 7, Merged(0, i), kStart));
  EXPECT_EQ(pacer.RateOf(7), 0u);
  EXPECT_EQ(pacer.NextDue(), absl::InfiniteFuture());
  EXPECT_FALSE(pacer.TakeDue(absl::InfiniteFuture()).has_value());
}

TEST(Pacer, FramesLeaveInOrderAtTheRate) {
  Pacer pacer = Limited();
  EXPECT_EQ(pacer.RateOf(1), kRate);
  // The burst, and the frame that starts on an empty bucket.
  EXPECT_TRUE(Send(pacer, 1, Merged(0, 0), kStart));
  EXPECT_TRUE(Send(pacer, 1, Merged(0, 1), kStart));
  for (const uint32_t segment : {9, 4, 6}) {
    EXPECT_FALSE(Send(pacer, 1, Merged(0, segment), kStart));
  }
  EXPECT_EQ(pacer.WaitingFor(1).frames, 3u);
  EXPECT_EQ(pacer.WaitingFor(1).bytes, 3 * kFrameBytes);
  EXPECT_FALSE(pacer.TakeDue(kStart).has_value());
  EXPECT_EQ(Drain(pacer), (std::vector<PacedFrame>{{absl::Milliseconds(100), 1, 0, 9},
                                                   {absl::Milliseconds(200), 1, 0, 4},
                                                   {absl::Milliseconds(300), 1, 0, 6}}));
  EXPECT_EQ(pacer.WaitingFor(1).frames, 0u);
  EXPECT_EQ(pacer.WaitingFor(1).bytes, 0u);
}

TEST(Pacer, WhatIsLateIsMadeUpForByTheBurst) {
  Pacer pacer = Limited(10);
  // After 50 ms without a call the next frame is on time again.
  ASSERT_TRUE(SendNext(pacer, kStart + absl::Milliseconds(150)));
  EXPECT_EQ(pacer.NextDue(), kStart + absl::Milliseconds(200));
}

TEST(Pacer, OneWorkersLimitDoesNotHoldAnother) {
  Pacer pacer = Limited();
  pacer.SetRate(2, 2 * kRate);
  for (uint32_t i = 0; i < 6; ++i) {
    Send(pacer, 1, Merged(0, i), kStart);
    Send(pacer, 2, Merged(0, i), kStart);
    EXPECT_TRUE(Send(pacer, 3, Merged(0, i), kStart));
  }
  // Two and three frames went at once.
  EXPECT_EQ(Drain(pacer), (std::vector<PacedFrame>{{absl::Milliseconds(50), 2, 0, 3},
                                                   {absl::Milliseconds(100), 1, 0, 2},
                                                   {absl::Milliseconds(100), 2, 0, 4},
                                                   {absl::Milliseconds(150), 2, 0, 5},
                                                   {absl::Milliseconds(200), 1, 0, 3},
                                                   {absl::Milliseconds(300), 1, 0, 4},
                                                   {absl::Milliseconds(400), 1, 0, 5}}));
}

TEST(Pacer, ANewerRoundTakesThePlaceOfAnOlderOne) {
  Pacer pacer = Limited();
  Send(pacer, 1, Merged(0, 0), kStart);
  Send(pacer, 1, Merged(0, 1), kStart);
  EXPECT_FALSE(Send(pacer, 1, Merged(3, 5), kStart));
  EXPECT_FALSE(Send(pacer, 1, Merged(3, 6), kStart));
  EXPECT_FALSE(Send(pacer, 1, Merged(4, 5), kStart));
  EXPECT_FALSE(Send(pacer, 1, Merged(2, 6), kStart)) << "older than what waits";
  EXPECT_FALSE(Send(pacer, 1, Merged(3, 6), kStart)) << "asked for twice, sent once";
  EXPECT_EQ(pacer.WaitingFor(1).frames, 2u);
  EXPECT_EQ(pacer.WaitingFor(1).bytes, 2 * kFrameBytes);
  using Dropped = std::pair<uint32_t, uint32_t>;
  EXPECT_EQ(pacer.TakeDropped(), (std::vector{Dropped(1, 5), Dropped(1, 6)})) << "3/5 and 2/6";
  EXPECT_TRUE(pacer.TakeDropped().empty());
  EXPECT_EQ(Drain(pacer), (std::vector<PacedFrame>{{absl::Milliseconds(100), 1, 4, 5},
                                                   {absl::Milliseconds(200), 1, 3, 6}}));
}

TEST(Pacer, AnswersAreChargedAndPutOffWhatWaits) {
  Pacer pacer = Limited(3);
  pacer.Charge(1, kFrameBytes, kStart);
  EXPECT_FALSE(pacer.TakeDue(kStart + absl::Milliseconds(199)).has_value());
  EXPECT_TRUE(pacer.TakeDue(kStart + absl::Milliseconds(200)).has_value());
  pacer.Charge(2, kFrameBytes, kStart);
  EXPECT_TRUE(Send(pacer, 2, Merged(0, 0), kStart)) << "charging sets no limit";
}

TEST(Pacer, NamingTheSameRateAgainForgivesNothing) {
  Pacer pacer = Limited(3);
  pacer.SetRate(1, kRate);
  EXPECT_EQ(pacer.NextDue(), kStart + absl::Milliseconds(100));
}

TEST(Pacer, LiftingTheLimitLetsGoOfWhatWaits) {
  Pacer pacer = Limited(4);
  pacer.SetRate(1, 0);
  EXPECT_FALSE(Send(pacer, 1, Merged(0, 9), kStart)) << "behind those that wait";
  std::vector<uint32_t> segments;
  while (const auto due = pacer.TakeDue(kStart)) segments.push_back(due->frame.header().segment());
  EXPECT_EQ(segments, (std::vector<uint32_t>{2, 3, 9}));
  EXPECT_TRUE(Send(pacer, 1, Merged(0, 10), kStart));
}

TEST(Pacer, AForgottenWorkersFramesAreGone) {
  Pacer pacer = Limited(4);
  pacer.Forget(1);
  EXPECT_EQ(pacer.NextDue(), absl::InfiniteFuture());
  EXPECT_EQ(pacer.RateOf(1), 0u);
  EXPECT_TRUE(Send(pacer, 1, Merged(0, 0), kStart));
}

TEST(Pacer, WhatCouldNotBeSentComesBackFirst) {
  Pacer pacer;
  const absl::Time later = kStart + absl::Milliseconds(100);
  pacer.PutBack(1, Merged(2, 3), later);
  EXPECT_FALSE(Send(pacer, 1, Merged(2, 4), kStart)) << "behind what is stuck, limit or not";
  EXPECT_EQ(pacer.NextDue(), later);
  EXPECT_FALSE(pacer.TakeDue(later - absl::Nanoseconds(1)).has_value());
  const auto again = pacer.TakeDue(later);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->frame.header().segment(), 3u);
  pacer.PutBack(1, *again, later + absl::Seconds(1));  // still stuck
  EXPECT_EQ(pacer.WaitingFor(1).frames, 2u);
  EXPECT_FALSE(pacer.TakeDue(later).has_value());
  EXPECT_EQ(Drain(pacer), (std::vector<PacedFrame>{{absl::Milliseconds(1100), 1, 2, 3},
                                                   {absl::Milliseconds(1100), 1, 2, 4}}));
  EXPECT_TRUE(Send(pacer, 1, Merged(2, 5), later + absl::Seconds(1)));
}

TEST(Pacer, WhatCouldNotBeSentGivesWayToANewerRound) {
  Pacer pacer;
  const absl::Time later = kStart + absl::Milliseconds(100);
  pacer.PutBack(1, Merged(2, 3), later);
  EXPECT_FALSE(Send(pacer, 1, Merged(3, 3), kStart));
  pacer.PutBack(1, Merged(2, 3), later);
  EXPECT_EQ(Drain(pacer), (std::vector<PacedFrame>{{absl::Milliseconds(100), 1, 3, 3}}));
}

TEST(Pacer, WhatCouldNotBeSentIsChargedOnceItIs) {
  Pacer pacer = Limited();
  // The queue of its connection is full for the first try and for 19 more.
  absl::Time now = kStart;
  ASSERT_TRUE(pacer.Admit(1, Merged(0, 0), now));
  pacer.PutBack(1, Merged(0, 0), now + absl::Milliseconds(10));
  EXPECT_FALSE(Send(pacer, 1, Merged(0, 1), now));
  EXPECT_FALSE(Send(pacer, 1, Merged(0, 2), now));
  for (int i = 0; i < 19; ++i) {
    now += absl::Milliseconds(10);
    ASSERT_EQ(pacer.NextDue(), now);
    std::optional<SendFrame> due = pacer.TakeDue(now);
    ASSERT_TRUE(due.has_value());
    pacer.PutBack(1, *due, now + absl::Milliseconds(10));
  }
  // Then all goes as if nothing had been tried: the burst, an empty bucket, a frame's time.
  EXPECT_EQ(Drain(pacer), (std::vector<PacedFrame>{{absl::Milliseconds(200), 1, 0, 0},
                                                   {absl::Milliseconds(200), 1, 0, 1},
                                                   {absl::Milliseconds(300), 1, 0, 2}}));
}

TEST(Pacer, WhatGoesToNobodyCostsNothing) {
  Pacer pacer = Limited();
  for (uint32_t i = 0; i < 50; ++i) EXPECT_TRUE(pacer.Admit(1, Merged(0, i), kStart));
}

TEST(Pacer, HoldsSharedBytesAlone) {
  Pacer pacer;
  const SendFrame send = Merged(0, 1);
  for (uint32_t worker = 0; worker < 3; ++worker) {
    pacer.SetRate(worker, 1);
    Send(pacer, worker, Merged(0, 0), kStart);
    EXPECT_FALSE(Send(pacer, worker, send, kStart));
  }
  while (const auto due = pacer.TakeDue(kStart + absl::Hours(1000))) {
    EXPECT_EQ(due->frame.payload().bytes().data(), send.frame.payload().bytes().data());
  }
}

TEST(Pacer, WhatWasAskedForWaitsEachOnItsOwn) {
  Pacer pacer;
  pacer.SetRate(3, kRate);
  while (Send(pacer, 3, Merged(9, 2), kStart)) {  // the last one waits
  }
  for (uint32_t round = 0; round < 3; ++round) {
    EXPECT_FALSE(pacer.Admit(3, Merged(round, 1, SendCause::kRequested), kStart));
    EXPECT_FALSE(pacer.Admit(3, Merged(round, 1, SendCause::kRequested), kStart));  // again
  }
  EXPECT_FALSE(pacer.Admit(3, Merged(10, 1), kStart));
  EXPECT_FALSE(pacer.Admit(3, Merged(10, 1, SendCause::kRequested), kStart));  // waits already
  EXPECT_EQ(pacer.WaitingFor(3).frames, 5u);
  std::vector<uint32_t> rounds;
  for (const PacedFrame& sent : Drain(pacer)) rounds.push_back(sent.round);
  EXPECT_EQ(rounds, (std::vector<uint32_t>{9, 0, 1, 2, 10}));
}

TEST(Pacer, NotMoreThanAskedMaxWaits) {
  Pacer pacer;
  pacer.SetRate(3, kRate);
  while (Send(pacer, 3, Merged(9, 2), kStart)) {  // the last one waits
  }
  for (uint32_t round = 0; round < 2 * Pacer::kRequestsMax; ++round) {
    EXPECT_FALSE(pacer.Admit(3, Merged(round, 1, SendCause::kRequested), kStart));
  }
  EXPECT_FALSE(pacer.Admit(3, Merged(500, 1), kStart));
  EXPECT_EQ(pacer.TakeDropped().size(), Pacer::kRequestsMax);
  EXPECT_EQ(pacer.WaitingFor(3).frames, Pacer::kRequestsMax + 2);
  ASSERT_TRUE(SendNext(pacer, pacer.NextDue()));
  // A frame that could not be sent comes back with its cause, and leaves space for another one.
  const auto due = pacer.TakeDue(pacer.NextDue());
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->cause, SendCause::kRequested);
  pacer.PutBack(3, *due, kStart);
  EXPECT_EQ(pacer.WaitingFor(3).frames, Pacer::kRequestsMax + 1);
}

TEST(Pacer, NothingGoesBeforeARateIsNamedOrTheWaitForOneIsOver) {
  Pacer pacer;
  const absl::Time until = kStart + absl::Seconds(1);
  for (const uint32_t worker : {1u, 2u, 3u}) {
    pacer.AwaitRate(worker, until);
    EXPECT_FALSE(Send(pacer, worker, Merged(0, 0), kStart));
    EXPECT_FALSE(Send(pacer, worker, Merged(0, 1), kStart));
  }
  EXPECT_TRUE(Send(pacer, 4, Merged(0, 0), kStart)) << "of whom nothing is awaited";
  pacer.SetRate(1, 0);
  pacer.SetRate(2, kRate / 2);  // the bucket saves half a frame, and owes the other half
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(SendNext(pacer, kStart));
  EXPECT_FALSE(SendNext(pacer, kStart));
  EXPECT_EQ(pacer.WaitingFor(1).frames, 0u);
  EXPECT_EQ(pacer.WaitingFor(2).frames, 1u);
  const std::vector<PacedFrame> rest = Drain(pacer);
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_EQ(rest[0].worker, 2u);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(rest[0].at), 100, 1);
  EXPECT_EQ(rest[1], (PacedFrame{until - kStart, 3, 0, 0}));
  EXPECT_EQ(rest[2], (PacedFrame{until - kStart, 3, 0, 1}));
  EXPECT_TRUE(Send(pacer, 3, Merged(1, 0), until));
  EXPECT_TRUE(Send(pacer, 1, Merged(1, 0), kStart));
}

}  // namespace
}  // namespace longwave
