#ifndef LONGWAVE_TESTS_UNIT_SHARD_AGGREGATOR_TESTING_H_
#define LONGWAVE_TESTS_UNIT_SHARD_AGGREGATOR_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/wire/crc32c.h"
#include "server/shard/aggregator.h"
#include "tests/support/sent_frame.h"
#include "tests/unit/shard/shard_testing.h"

namespace longwave {

inline constexpr PayloadFormat kAllFp32{Selection::kAll, ValueCodec::kFp32, 0};

inline AggregatorOptions DenseOptions() { return {kRun, 0, 1, kAllFp32, 1, kAllFp32}; }

class AggregatorTest : public testing::Test {
 protected:
  void Start(const AggregatorOptions& options, const Membership& membership) {
    up_ = options.up;
    auto created = Aggregator::Create(options, FourSegments());
    ASSERT_TRUE(created.ok()) << created.status();
    aggregator_.emplace(*std::move(created));
    Step(MembershipChanged{membership});
  }

  std::vector<ShardEffect> Step(const AggregatorEvent& event) {
    return aggregator_->Step(event, now_);
  }
  // `seconds` later than the last step.
  std::vector<ShardEffect> StepAfter(double seconds, const AggregatorEvent& event) {
    now_ += absl::Seconds(seconds);
    return Step(event);
  }

  static PushFrame PushHeader(uint32_t worker, uint32_t round, uint32_t segment) {
    return {
        .run = kRun, .epoch = 1, .round = round, .worker = worker, .segment = segment, .weight = 1};
  }

  Buffer Payload(float value, uint32_t segment = 2) const {
    std::vector<float> dense(kTileSize);
    for (uint32_t i = 0; i < kTileSize; ++i) dense[i] = value * static_cast<float>(i + 1);
    return Buffer(EncodeDense(up_, layout_, segment, dense));
  }

  // The push as the link delivers it, with length and CRC of its payload.
  static PushArrived Framed(PushFrame header, Buffer payload) {
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    header.payload_crc = Crc32c(payload.bytes());
    return {header, std::move(payload)};
  }
  PushArrived Push(uint32_t worker, uint32_t round, uint32_t segment, float value = 1) const {
    return Framed(PushHeader(worker, round, segment), Payload(value));
  }
  static PullArrived Pull(uint32_t worker, uint32_t round, uint32_t segment) {
    return {{.run = kRun, .epoch = 1, .round = round, .worker = worker, .segment = segment}};
  }

  // The only effect must be an answer of this outcome; returns its reason.
  std::string Only(const std::vector<ShardEffect>& effects, Outcome outcome) {
    EXPECT_EQ(effects.size(), 1u);
    if (effects.empty() || !SentIn<AnswerFrame>(effects[0]).has_value()) {
      ADD_FAILURE() << "wanted an answer";
      return "";
    }
    const auto& answer = Sent<AnswerFrame>(effects[0]);
    EXPECT_EQ(Name(answer.header.outcome), Name(outcome)) << answer.reason();
    EXPECT_EQ(answer.header.run, kRun);
    return answer.reason();
  }

  static std::optional<SentFrame<MergedFrame>> Merged(const std::vector<ShardEffect>& effects) {
    for (const auto& effect : effects) {
      if (const auto merged = SentIn<MergedFrame>(effect)) return *merged;
    }
    return std::nullopt;
  }

  const Layout layout_ = FourSegments();
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  PayloadFormat up_;
  std::optional<Aggregator> aggregator_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_SHARD_AGGREGATOR_TESTING_H_
