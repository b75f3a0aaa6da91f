#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "tests/support/sent_frame.h"
#include "tests/unit/shard/aggregator_life.h"

// Records and snapshots that this shard cannot have made are refused, with a sentence about the
// difference.

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Records that a log must not have.
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
  // The epoch at the close does not matter.
  EXPECT_TRUE(Replayed([](MergedRecord& record) { record.header.epoch += 7; }).ok());
}

TEST_F(AggregatorForgery, OfTheUpdateIsFound) {
  ExpectLoss(Replayed([](MergedRecord& record) {
               std::vector<std::byte> bytes = BytesOf(record.payload);
               bytes.at(17) ^= std::byte{1};
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
  EXPECT_THAT(std::string(replay(0, Buffer()).message()), HasSubstr("log: push of worker "));
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
  EXPECT_THAT(refusal(3, none), HasSubstr("its update is of run"));
  EXPECT_THAT(refusal(2, [](SegmentSnapshot& s) { s.residual.pop_back(); }),
              HasSubstr("E of 23 coefficients, wanted 24"));
  EXPECT_THAT(refusal(2, [](SegmentSnapshot& s) { s.residual.clear(); }), HasSubstr("E of 0"));
  EXPECT_THAT(refusal(2, [](SegmentSnapshot& s) { ++s.open_round; }), HasSubstr("its update is"));
  EXPECT_THAT(refusal(2, [](SegmentSnapshot& s) { s.closed->header.run ^= 1; }),
              HasSubstr("its update is"));
  EXPECT_THAT(refusal(2,
                      [](SegmentSnapshot& s) {
                        s.closed->contributors.push_back({0, 1});
                      }),
              HasSubstr("contributors"));
  EXPECT_THAT(refusal(2,
                      [](SegmentSnapshot& s) {
                        std::vector<std::byte> bytes = BytesOf(s.closed->payload);
                        bytes.at(17) ^= std::byte{1};
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
  EXPECT_GT(aggregator_->ResidualSquareSum(2), 0);
  SegmentSnapshot fresh;
  fresh.open_round = 40;
  ASSERT_TRUE(aggregator_->Restore(2, fresh).ok());
  EXPECT_EQ(aggregator_->ResidualSquareSum(2), 0);
  EXPECT_THAT(Step(TimePassed{}), IsEmpty());
  Only(Step(Push(0, 39, 2)), Outcome::kCompacted);
  Only(Step(Pull(0, 39, 2)), Outcome::kCompacted);
  EXPECT_EQ(Merged(Step(Push(0, 40, 2)))->header.round, 40u);
  EXPECT_EQ(aggregator_->state().newest_round, 41u);
  EXPECT_EQ(aggregator_->Export(2).residual.size(), kTileSize);
}

TEST_F(AggregatorRestore, NamesThePayloadAsHeldThatTheSnapshotHas) {
  Start(DenseOptions(), Members(1, {0, 1}));
  Step(Push(0, 0, 2, 1));
  Step(Push(1, 0, 2, 1));
  const SegmentSnapshot first = aggregator_->Export(2);
  Step(Push(0, 1, 2, 5));
  Step(Push(1, 1, 2, 5));
  ASSERT_TRUE(aggregator_->Restore(2, first).ok());
  const auto effects = Step(Push(0, 0, 2, 1));
  const AnswerFrame& answer = Sent<AnswerFrame>(effects.at(0)).header;
  EXPECT_EQ(answer.outcome, Outcome::kDuplicate);
  EXPECT_EQ(answer.held_crc, Push(0, 0, 2, 1).header.payload_crc);  // not that of round 1
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
