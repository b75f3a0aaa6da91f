#ifndef LONGWAVE_TESTS_UNIT_SHARD_AGGREGATOR_LIFE_H_
#define LONGWAVE_TESTS_UNIT_SHARD_AGGREGATOR_LIFE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/rng.h"
#include "server/shard/aggregator.h"
#include "server/store/log_record.h"
#include "tests/unit/shard/aggregator_testing.h"

namespace longwave {

inline constexpr uint32_t kWorkers = 5;
inline constexpr uint32_t kCoefficients = 24;  // of a segment

inline Layout ReplayLayout() { return SmallLayout(kTileSize, 3, 4, 2); }

// The record as the log's file would give it back.
inline LogRecord Reread(const LogRecord& record) {
  const auto body = EncodeLogBody(record);
  EXPECT_TRUE(body.ok()) << body.status();
  std::vector<std::byte> bytes = body->front;
  bytes.insert(bytes.end(), body->payload.bytes().begin(), body->payload.bytes().end());
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  auto decoded = DecodeLogBody(KindOf(record), *owner, owner);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return *std::move(decoded);
}

inline void ExpectEqual(const SegmentSnapshot& got, const SegmentSnapshot& wanted) {
  EXPECT_EQ(got.open_round, wanted.open_round);
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(got.residual)),
                                 std::as_bytes(std::span(wanted.residual))));
  ASSERT_EQ(got.closed.has_value(), wanted.closed.has_value());
  if (!wanted.closed.has_value()) return;
  EXPECT_EQ(got.closed->header, wanted.closed->header);
  EXPECT_EQ(got.closed->contributors, wanted.closed->contributors);
  EXPECT_EQ(BytesOf(got.closed->payload), BytesOf(wanted.closed->payload));
}

inline void ExpectEqual(const Aggregator& got, const Aggregator& wanted) {
  for (uint32_t i = 0; i < wanted.segment_count(); ++i) {
    const uint32_t segment = wanted.first_segment() + i;
    SCOPED_TRACE(segment);
    ExpectEqual(got.Export(segment), wanted.Export(segment));
    EXPECT_EQ(got.OpenSegments()[i].open_bytes, wanted.OpenSegments()[i].open_bytes);
  }
  EXPECT_EQ(got.membership(), wanted.membership());
}

// A shard's life on a running clock: members push in any order, leave and come back. Keeps the
// shard's records.
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
    const double scales[] = {1, 1, 1, 1, 1, 1, 20, 1e7};  // to be clipped, to be left out
    const double scale = scales[rng_.Below(8)];
    double square_sum = 0;
    for (float& value : dense) value = static_cast<float>(scale * (rng_.Uniform() - 0.5));
    PushFrame header;
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

  std::vector<ShardEffect> Do(const AggregatorEvent& event) {
    auto effects = aggregator_->Step(event, now_);
    for (const ShardEffect& effect : effects) {
      if (const auto* push = LoggedIn<PushRecord>(effect)) {
        log_.push_back(Reread(PushRecord{push->header, push->payload}));
      } else if (const auto* merged = LoggedIn<MergedRecord>(effect)) {
        log_.push_back(Reread(*merged));
        ++closed_;
        for (const Contributor& each : merged->contributors) clipped_ += each.factor < 1;
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

inline AggregatorOptions Base() {
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

inline void ReplayAll(std::span<const LogRecord> log, Aggregator& into) {
  for (const LogRecord& record : log) {
    const absl::Status replayed = into.Replay(record);
    ASSERT_TRUE(replayed.ok()) << replayed;
  }
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_SHARD_AGGREGATOR_LIFE_H_
