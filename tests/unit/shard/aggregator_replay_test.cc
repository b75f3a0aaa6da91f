#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "server/shard/aggregator.h"
#include "tests/unit/shard/aggregator_testing.h"

// An aggregator that comes back from snapshots and a log is the one that wrote them.

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kWorkers = 5;
constexpr uint32_t kCoefficients = 24;  // of a segment

Layout ReplayLayout() { return SmallLayout(kTileSize, 3, 4, 2); }

// The record as the log's file would give it back.
LogRecord Reread(const LogRecord& record) {
  const auto body = EncodeLogBody(record);
  EXPECT_TRUE(body.ok()) << body.status();
  std::vector<std::byte> bytes = body->front;
  bytes.insert(bytes.end(), body->payload.bytes().begin(), body->payload.bytes().end());
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  auto decoded = DecodeLogBody(KindOf(record), *owner, owner);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return *std::move(decoded);
}

std::vector<std::byte> BytesOf(const Buffer& buffer) {
  return {buffer.bytes().begin(), buffer.bytes().end()};
}

void ExpectEqual(const SegmentSnapshot& got, const SegmentSnapshot& wanted) {
  EXPECT_EQ(got.open_round, wanted.open_round);
  ASSERT_EQ(got.residual.size(), wanted.residual.size());
  EXPECT_EQ(std::memcmp(got.residual.data(), wanted.residual.data(),
                        wanted.residual.size() * sizeof(float)),
            0);
  ASSERT_EQ(got.closed.has_value(), wanted.closed.has_value());
  if (!wanted.closed.has_value()) return;
  EXPECT_EQ(got.closed->header, wanted.closed->header);
  EXPECT_EQ(got.closed->contributors, wanted.closed->contributors);
  EXPECT_EQ(BytesOf(got.closed->payload), BytesOf(wanted.closed->payload));
}

void ExpectEqual(const Aggregator& got, const Aggregator& wanted) {
  for (uint32_t i = 0; i < wanted.segment_count(); ++i) {
    const uint32_t segment = wanted.first_segment() + i;
    SCOPED_TRACE(segment);
    ExpectEqual(got.Export(segment), wanted.Export(segment));
    EXPECT_EQ(got.OpenSegments()[i].open_bytes, wanted.OpenSegments()[i].open_bytes);
  }
  EXPECT_EQ(got.membership(), wanted.membership());
}

// A shard's life: members that push in any order, leave and come back, on a clock that runs; and
// what it wrote down meanwhile.
class Life {
 public:
  Life(const AggregatorOptions& options, uint64_t seed) : options_(options), rng_(seed) {
    aggregator_.emplace(Made());
    Change(Members(1, {0, 1, 2, 3, 4}));
  }

  Aggregator Made() const {
    auto created = Aggregator::Create(options_, ReplayLayout());
    EXPECT_TRUE(created.ok()) << created.status();
    return *std::move(created);
  }

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      now_ += absl::Milliseconds(rng_.Below(700));
      if (rng_.Below(25) == 0) {
        ChangeSomehow();
      } else if (rng_.Below(10) == 0) {
        Do(TimePassed{});
      } else {
        Do(SomePush());
      }
    }
  }

  PushArrived SomePush() {
    const auto worker = static_cast<uint32_t>(rng_.Below(kWorkers));
    const auto segment = 2 + static_cast<uint32_t>(rng_.Below(2));
    std::vector<float> dense(kCoefficients);
    const double scale = rng_.Below(4) == 0 ? 20 : 1;  // to be clipped
    double square_sum = 0;
    for (float& value : dense) value = static_cast<float>(scale * (rng_.Uniform() - 0.5));
    FrameHeader header;
    header.kind = FrameKind::kPush;
    header.run = kRun;
    header.worker = worker;
    header.round = aggregator_->open_round(segment);
    header.segment = segment;
    header.weight = 1 + rng_.Below(1000);
    const Buffer payload(EncodeDense(options_.up, layout_, segment, dense));
    for (const float sent : DecodeDense(payload.bytes(), layout_, segment)) {
      square_sum += double{sent} * double{sent};
    }
    header.norm = static_cast<float>(std::sqrt(square_sum));
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    header.payload_crc = Crc32c(payload.bytes());
    return {header, payload};
  }

  std::vector<AggregatorEffect> Do(const AggregatorEvent& event) {
    auto effects = aggregator_->Step(event, now_);
    for (const AggregatorEffect& effect : effects) {
      if (const auto* push = std::get_if<KeepPush>(&effect)) {
        log_.push_back(Reread(PushRecord{push->header, push->payload}));
      } else if (const auto* merged = std::get_if<KeepMerged>(&effect)) {
        log_.push_back(Reread(merged->record));
        ++closed_;
        for (const Contributor& each : merged->record.contributors) clipped_ += each.factor < 1;
      }
    }
    return effects;
  }

  void Change(const Membership& membership) {
    log_.push_back(Reread(MembershipRecord{membership}));
    Do(MembershipChanged{membership});
  }

  Aggregator& aggregator() { return *aggregator_; }
  const std::vector<LogRecord>& log() const { return log_; }
  absl::Time now() const { return now_; }
  int closed() const { return closed_; }
  int clipped() const { return clipped_; }

 private:
  void ChangeSomehow() {
    Membership membership{aggregator_->membership().epoch + 1, {}};
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      if (rng_.Below(4) == 0) continue;
      const uint32_t newest = aggregator_->state().newest_round;
      const uint32_t first = rng_.Below(5) == 0 ? newest + 1 : 0;
      membership.members.push_back({worker, "w", first});
    }
    Change(membership);
  }

  const AggregatorOptions options_;
  const Layout layout_ = ReplayLayout();
  Rng rng_;
  absl::Time now_ = absl::UnixEpoch();
  std::optional<Aggregator> aggregator_;
  std::vector<LogRecord> log_;
  int closed_ = 0;
  int clipped_ = 0;
};

AggregatorOptions Base() {
  AggregatorOptions options;
  options.run = kRun;
  options.shard = 1;
  options.up = {Selection::kTopK, ValueCodec::kInt4, 3};
  options.rho = 0.25;
  options.down = {Selection::kTopK, ValueCodec::kInt2, 4};
  options.quorum = 0.5;
  options.grace_min = absl::Seconds(1);
  options.grace_max = absl::Seconds(3);
  options.logs = true;
  return options;
}

// With E and without, clipped and not, with a quorum and with all.
std::vector<AggregatorOptions> AllKinds() {
  std::vector<AggregatorOptions> kinds(4, Base());
  kinds[1].clip = 1.5;
  kinds[2].up = kinds[2].down = kAllFp32;
  kinds[2].rho = 1;
  kinds[3].quorum = 1;
  kinds[3].clip = 2;
  kinds[3].down = {Selection::kAll, ValueCodec::kBf16, 0};
  return kinds;
}

void ReplayAll(std::span<const LogRecord> log, Aggregator& into) {
  for (const LogRecord& record : log) {
    const absl::Status replayed = into.Replay(record);
    ASSERT_TRUE(replayed.ok()) << replayed;
  }
}

TEST(AggregatorReplay, OfAWholeHistoryGivesTheSameShardToTheBit) {
  for (const AggregatorOptions& options : AllKinds()) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      Life life(options, seed);
      life.Run(400);
      EXPECT_GT(life.closed(), 20);
      if (options.clip > 0) {
        EXPECT_GT(life.clipped(), 5);
      }

      Aggregator again = life.Made();
      ReplayAll(life.log(), again);
      ExpectEqual(again, life.aggregator());
      EXPECT_EQ(again.NextDue(), absl::InfinitePast());
      EXPECT_EQ(again.state().pushes_accepted, 0u);  // counts are those of a process
      // They go on alike: both would close the same, and answer the same.
      const auto same = [&](const AggregatorEvent& event) {
        const auto a = life.Do(event);
        const auto b = again.Step(event, life.now());
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); ++i) {
          ASSERT_EQ(a[i].index(), b[i].index());
          if (const auto* answer = std::get_if<AnswerPush>(&a[i])) {
            EXPECT_EQ(std::get<AnswerPush>(b[i]).header, answer->header);
          } else if (const auto* merged = std::get_if<SendMerged>(&a[i])) {
            EXPECT_EQ(std::get<SendMerged>(b[i]).header, merged->header);
            EXPECT_EQ(BytesOf(std::get<SendMerged>(b[i]).payload), BytesOf(merged->payload));
          }
        }
      };
      if (options.quorum < 1) continue;  // what time it was is not in the log
      for (int i = 0; i < 100; ++i) same(life.SomePush());
      ExpectEqual(again, life.aggregator());
    }
  }
}

// A shard may end after any record. What had come whole then closes as it did, or would have.
TEST(AggregatorReplay, OfEveryPrefixLeadsToTheClosesThatFollowed) {
  for (const AggregatorOptions& options : AllKinds()) {
    if (options.quorum < 1) continue;
    Life life(options, 77);
    life.Run(120);
    const std::vector<LogRecord>& log = life.log();
    int closes = 0;
    for (size_t count = 0; count <= log.size(); ++count) {
      Aggregator again = life.Made();
      ReplayAll(std::span(log).first(count), again);
      const auto effects = again.Step(TimePassed{}, absl::UnixEpoch());
      EXPECT_EQ(again.NextDue(), absl::InfiniteFuture());
      // Whatever a membership or a push had completed was still to be written, in this order.
      size_t next = count;
      for (const AggregatorEffect& effect : effects) {
        const auto* kept = std::get_if<KeepMerged>(&effect);
        if (kept == nullptr) continue;
        ++closes;
        ASSERT_LT(next, log.size());
        const auto& wanted = std::get<MergedRecord>(log[next++]);
        EXPECT_EQ(kept->record.header, wanted.header);
        EXPECT_EQ(kept->record.contributors, wanted.contributors);
        EXPECT_EQ(kept->record.residual_hash, wanted.residual_hash);
        EXPECT_EQ(BytesOf(kept->record.payload), BytesOf(wanted.payload));
      }
    }
    EXPECT_GE(closes, life.closed());
  }
}

TEST(AggregatorReplay, FromSnapshotsOnGivesTheSameShard) {
  for (const AggregatorOptions& options : AllKinds()) {
    Life life(options, 5);
    std::map<uint32_t, SegmentSnapshot> snapshots;
    for (int i = 0; i < 30; ++i) {
      life.Run(10);
      // At any moment: what is open then is in the log before it, hence all of it is replayed.
      const uint32_t segment = 2 + static_cast<uint32_t>(i % 2);
      if (i < 25) snapshots[segment] = life.aggregator().Export(segment);
    }
    Aggregator again = life.Made();
    for (const auto& [segment, snapshot] : snapshots) {
      EXPECT_GT(snapshot.open_round, 2u);
      ASSERT_TRUE(again.Restore(segment, snapshot).ok());
    }
    ReplayAll(life.log(), again);
    ExpectEqual(again, life.aggregator());
    // Once more is nothing new, but for what is open.
    for (const LogRecord& record : life.log()) {
      const auto* merged = std::get_if<MergedRecord>(&record);
      if (merged != nullptr) {
        EXPECT_TRUE(again.Replay(record).ok());
      }
    }
    ExpectEqual(again, life.aggregator());
  }
}

TEST(AggregatorReplay, GraceBeginsAnewAfterIt) {
  Life life(Base(), 1);
  PushArrived push = life.SomePush();
  Aggregator again = life.Made();
  for (const uint32_t worker : {0u, 1u, 2u}) {
    push.header.worker = worker;
    life.Do(push);
  }
  ReplayAll(life.log(), again);
  EXPECT_EQ(again.NextDue(), absl::InfinitePast());
  const absl::Time now = life.now() + absl::Hours(3);
  EXPECT_THAT(again.Step(TimePassed{}, now), IsEmpty());
  EXPECT_EQ(again.NextDue(), now + absl::Seconds(1));
  EXPECT_EQ(again.Step(TimePassed{}, now + absl::Seconds(1)).size(), 2u);
}

TEST(AggregatorReplay, TakesTheNewestMembershipOnly) {
  Aggregator again = Life(Base(), 1).Made();
  ASSERT_TRUE(again.Replay(MembershipRecord{Members(3, {0, 1})}).ok());
  ASSERT_TRUE(again.Replay(MembershipRecord{Members(2, {0})}).ok());
  EXPECT_EQ(again.membership(), Members(3, {0, 1}));
}

TEST(AggregatorReplay, CountsPushesOfWhoHasLeftToNoQuorum) {
  Life life(Base(), 1);
  Aggregator again = life.Made();
  // The log begins after the membership of which worker 0 was.
  ASSERT_TRUE(again.Replay(MembershipRecord{Members(2, {1, 2, 3})}).ok());
  PushArrived push = life.SomePush();
  for (const uint32_t worker : {0u, 1u}) {
    push.header.worker = worker;
    ASSERT_TRUE(again.Replay(PushRecord{push.header, push.payload}).ok());
  }
  EXPECT_THAT(again.Step(TimePassed{}, life.now()), IsEmpty());
  EXPECT_EQ(again.NextDue(), absl::InfiniteFuture());
  push.header.worker = 2;
  again.Step(push, life.now());
  EXPECT_EQ(again.NextDue(), life.now() + absl::Seconds(1));
}

// What a log must not have.
class AggregatorForgery : public testing::Test {
 protected:
  AggregatorForgery() : life_(Options(), 3) {
    while (life_.closed() < 6) life_.Run(1);
  }
  static AggregatorOptions Options() {
    AggregatorOptions options = Base();
    options.quorum = 1;
    options.clip = 1.5;
    return options;
  }
  // Replays the history with its last close forged.
  template <typename F>
  absl::Status Replayed(const F& forge) {
    Aggregator again = life_.Made();
    const std::vector<LogRecord>& log = life_.log();
    size_t last = log.size() - 1;
    while (!std::holds_alternative<MergedRecord>(log[last])) --last;
    ReplayAll(std::span(log).first(last), again);
    MergedRecord record = std::get<MergedRecord>(log[last]);
    EXPECT_GE(record.contributors.size(), 2u);
    forge(record);
    return again.Replay(record);
  }
  void ExpectLoss(const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), HasSubstr("log: merged of round "));
  }

  Life life_;
};

TEST_F(AggregatorForgery, IsNoneIfNothingIsChanged) {
  const absl::Status replayed = Replayed([](MergedRecord&) {});
  EXPECT_TRUE(replayed.ok()) << replayed;
  // Who closed it under which membership does not matter.
  EXPECT_TRUE(Replayed([](MergedRecord& record) { record.header.epoch += 7; }).ok());
}

TEST_F(AggregatorForgery, OfTheUpdateIsFound) {
  ExpectLoss(Replayed([](MergedRecord& record) {
               std::vector<std::byte> bytes = BytesOf(record.payload);
               bytes.back() ^= std::byte{1};
               record.payload = Buffer(bytes);
             }),
             "its pushes give another update");
  ExpectLoss(Replayed([](MergedRecord& record) {
               std::vector<std::byte> bytes = BytesOf(record.payload);
               bytes.pop_back();
               record.payload = Buffer(bytes);
             }),
             "its pushes give another update");
}

TEST_F(AggregatorForgery, OfEIsFound) {
  ExpectLoss(Replayed([](MergedRecord& record) { record.residual_hash ^= 1; }), "leaves E");
  ExpectLoss(Replayed([](MergedRecord& record) { record.residual_hash = 0; }), "leaves E");
}

TEST_F(AggregatorForgery, OfTheHeaderIsFound) {
  ExpectLoss(Replayed([](MergedRecord& record) { ++record.header.weight; }), "its pushes give");
  ExpectLoss(Replayed([](MergedRecord& record) { record.header.norm *= 1.01f; }),
             "its pushes give");
}

TEST_F(AggregatorForgery, OfWhoWasMergedAndHowIsFound) {
  ExpectLoss(Replayed([](MergedRecord& record) { record.contributors.pop_back(); }),
             "while pushes are there of workers");
  ExpectLoss(Replayed([](MergedRecord& record) {
               record.contributors.push_back({99, 1, 1});
             }),
             "while pushes are there of workers");
  ExpectLoss(Replayed([](MergedRecord& record) { record.contributors.clear(); }), "merges nobody");
  ExpectLoss(Replayed([](MergedRecord& record) { ++record.contributors[0].weight; }),
             "with weight ");
  ExpectLoss(Replayed([](MergedRecord& record) { record.contributors[1].factor *= 0.5; }),
             "with factor ");
}

TEST_F(AggregatorForgery, OfTheRoundIsFound) {
  ExpectLoss(Replayed([](MergedRecord& record) { ++record.header.round; }),
             "nothing before it closes round ");
  // A close of an older round is one that a snapshot has already.
  EXPECT_TRUE(Replayed([](MergedRecord& record) { --record.header.round; }).ok());
}

TEST_F(AggregatorForgery, OfOthersIsRefused) {
  for (const absl::Status& status :
       {Replayed([](MergedRecord& record) { record.header.run ^= 1; }),
        Replayed([](MergedRecord& record) { record.header.segment = 0; })}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(AggregatorForgery, OfPushesIsFound) {
  Aggregator again = life_.Made();
  PushArrived push = life_.SomePush();
  const auto replay = [&](uint32_t round, Buffer payload) {
    push.header.round = round;
    return again.Replay(PushRecord{push.header, std::move(payload)});
  };
  EXPECT_THAT(std::string(replay(1, push.payload).message()),
              HasSubstr("nothing before it closes round 0"));
  EXPECT_THAT(std::string(replay(0, Buffer()).message()), HasSubstr("log: push of round 0"));
  EXPECT_TRUE(replay(0, push.payload).ok());
  const absl::Status twice = replay(0, push.payload);
  EXPECT_EQ(twice.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(twice.message()), HasSubstr("is accepted for a second time"));
  push.header.weight = 0;
  push.header.worker = 77;
  EXPECT_EQ(replay(0, push.payload).code(), absl::StatusCode::kDataLoss);
  push.header.run ^= 1;
  EXPECT_EQ(replay(0, push.payload).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(again.Replay(NoteRecord{3, "round 3 begins"}).ok());
}

class AggregatorRestore : public AggregatorTest {};

TEST_F(AggregatorRestore, RefusesWhatIsNotTheSegments) {
  Life life(Base(), 9);
  life.Run(200);
  const SegmentSnapshot good = life.aggregator().Export(2);
  ASSERT_TRUE(good.closed.has_value());
  const auto refusal = [&](uint32_t segment, auto change) {
    SegmentSnapshot changed = good;
    change(changed);
    Aggregator again = life.Made();
    const absl::Status status = again.Restore(segment, changed);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    ExpectEqual(again.Export(2), life.Made().Export(2));  // nothing has changed
    return std::string(status.message());
  };
  const auto none = [](SegmentSnapshot&) {};
  EXPECT_THAT(refusal(0, none), HasSubstr("wanted a segment of shard 1, 2 to 3"));
  EXPECT_THAT(refusal(3, none), HasSubstr("its update is a merged frame of run"));
  EXPECT_THAT(refusal(2, [](SegmentSnapshot& s) { s.residual.pop_back(); }),
              HasSubstr("E of 23 coefficients, wanted 24"));
  EXPECT_THAT(refusal(2, [](SegmentSnapshot& s) { s.residual.clear(); }), HasSubstr("E of 0"));
  EXPECT_THAT(refusal(2, [](SegmentSnapshot& s) { ++s.open_round; }), HasSubstr("its update is"));
  EXPECT_THAT(refusal(2, [](SegmentSnapshot& s) { s.closed->header.run ^= 1; }),
              HasSubstr("its update is"));
  EXPECT_THAT(refusal(2, [](SegmentSnapshot& s) { s.closed->contributors.push_back(0); }),
              HasSubstr("contributors"));
  EXPECT_THAT(refusal(2,
                      [](SegmentSnapshot& s) {
                        std::vector<std::byte> bytes = BytesOf(s.closed->payload);
                        bytes.back() ^= std::byte{1};
                        s.closed->payload = Buffer(bytes);
                      }),
              HasSubstr("its update: "));
  EXPECT_THAT(refusal(2,
                      [](SegmentSnapshot& s) {
                        std::vector<std::byte> bytes = BytesOf(s.closed->payload);
                        bytes[1] = std::byte{9};  // of no selection
                        s.closed->payload = Buffer(bytes);
                        s.closed->header.payload_crc = Crc32c(bytes);
                      }),
              HasSubstr("its update: "));
}

TEST_F(AggregatorRestore, OpensARoundWithoutAPast) {
  AggregatorOptions options = DenseOptions();
  options.down = {Selection::kTopK, ValueCodec::kFp32, 7};
  Start(options, Members(1, {0}));
  Step(Push(0, 0, 2));
  EXPECT_GT(aggregator_->ResidualSquareSum(), 0);
  SegmentSnapshot fresh;
  fresh.open_round = 40;
  ASSERT_TRUE(aggregator_->Restore(2, fresh).ok());
  EXPECT_EQ(aggregator_->ResidualSquareSum(), 0);
  EXPECT_THAT(Step(TimePassed{}), IsEmpty());
  Only(Step(Push(0, 39, 2)), Outcome::kLate);
  Only(Step(Pull(0, 39, 2)), Outcome::kGone);
  EXPECT_EQ(Merged(Step(Push(0, 40, 2)))->header.round, 40u);
  EXPECT_EQ(aggregator_->state().newest_round, 41u);
  EXPECT_EQ(aggregator_->Export(2).residual.size(), kTileSize);
}

TEST_F(AggregatorRestore, ForgetsWhatWasOpen) {
  AggregatorOptions options = DenseOptions();
  options.open_bytes_max = 16 + 4 * kTileSize;
  Start(options, Members(1, {0, 1}));
  Step(Push(0, 0, 3));
  Only(Step(Push(1, 0, 3)), Outcome::kBusy);
  ASSERT_TRUE(aggregator_->Restore(3, {}).ok());
  EXPECT_EQ(aggregator_->OpenSegments()[1].open_bytes, 0u);
  Only(Step(Push(0, 0, 3)), Outcome::kAccepted);  // neither a duplicate nor busy
}

}  // namespace
}  // namespace longwave
