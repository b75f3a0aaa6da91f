#ifndef LONGWAVE_TESTS_UNIT_SHARD_STATE_SHARD_STATE_TESTING_H_
#define LONGWAVE_TESTS_UNIT_SHARD_STATE_SHARD_STATE_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/wire/crc32c.h"
#include "common/wire/snapshot_payload.h"
#include "server/shard_state/durable_shard.h"
#include "tests/support/sent_frame.h"
#include "tests/support/sim_file_system.h"
#include "tests/unit/shard/shard_testing.h"

namespace longwave {

// All in fp32 up, the largest two of eight down; the rest stays in E.
inline DurableShardOptions TestOptions() {
  DurableShardOptions options;
  options.aggregator.run = kRun;
  options.aggregator.shard = 1;
  options.aggregator.up = {Selection::kAll, ValueCodec::kFp32, 0};
  options.aggregator.down = {Selection::kTopK, ValueCodec::kFp32, 2};
  options.aggregator.rho = 1;
  options.state_rounds = 2;
  options.snapshot_rounds = 3;
  return options;
}

template <typename Frame>
Frame TestHeader(uint32_t worker, uint32_t round, uint32_t segment) {
  Frame frame{.run = kRun};
  if constexpr (requires { frame.epoch; }) frame.epoch = 100;  // no earlier than the shard's
  if constexpr (requires { frame.worker; }) frame.worker = worker;
  if constexpr (requires { frame.weight; }) frame.weight = 1 + worker;
  frame.round = round;
  frame.segment = segment;
  return frame;
}

// A worker's contribution: different numbers for every round, segment and place.
inline PushArrived TestPush(uint32_t worker, uint32_t round, uint32_t segment) {
  std::vector<float> dense(kTileSize);
  for (uint32_t i = 0; i < kTileSize; ++i) {
    dense[i] = static_cast<float>((worker * 31 + round * 17 + segment * 7 + i * 13) % 97) - 40;
  }
  const DurableShardOptions options = TestOptions();
  const Layout layout = FourSegments();
  Buffer payload(EncodeDense(options.aggregator.up, layout, segment, dense));
  PushFrame header = TestHeader<PushFrame>(worker, round, segment);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = Crc32c(payload.bytes());
  return {header, std::move(payload)};
}
inline PullArrived TestPull(uint32_t worker, uint32_t round, uint32_t segment) {
  return {TestHeader<PullFrame>(worker, round, segment)};
}
inline FetchArrived TestFetch(uint32_t worker, uint32_t round, uint32_t segment) {
  return {TestHeader<FetchFrame>(worker, round, segment)};
}

// A segment's parameters before a round, as every member would have them.
inline std::vector<float> TestParameters(uint32_t segment, uint32_t round) {
  std::vector<float> values(kTileSize);
  for (uint32_t i = 0; i < kTileSize; ++i) {
    values[i] = static_cast<float>(segment * 1000 + round * 10 + i);
  }
  return values;
}
inline SnapshotArrived TestSnapshot(uint32_t worker, uint32_t round, uint32_t segment) {
  const std::vector<float> values = TestParameters(segment, round);
  const std::span<const float> arrays[] = {values};
  return {TestHeader<SnapshotFrame>(worker, round, segment), EncodeSnapshotPayload(arrays)};
}

// The outcomes of the answers, in order.
inline std::vector<Outcome> Outcomes(const std::vector<ShardEffect>& effects) {
  std::vector<Outcome> outcomes;
  for (const auto& answer : AllSent<AnswerFrame>(effects)) {
    outcomes.push_back(answer.header.outcome);
  }
  return outcomes;
}

// A shard on a simulated machine, whose processes come and go.
class ShardOnDisk {
 public:
  explicit ShardOnDisk(uint64_t seed = 1, DurableShardOptions options = TestOptions(),
                       uint64_t log_file_bytes = 1024)
      : files(seed), options(std::move(options)), log_file_bytes_(log_file_bytes) {}

  // Unavailable: there is trouble from the start on, and no shard.
  absl::Status Open() {
    const absl::Status opened = OpenInTrouble();
    if (!opened.ok() || shard_->trouble().empty()) return opened;
    const absl::Status trouble = absl::UnavailableError(shard_->trouble());
    shard_.reset();
    return trouble;
  }
  // Also where there is.
  absl::Status OpenInTrouble() {
    shard_.reset();
    const Layout layout = FourSegments();
    ShardStoreOptions store;
    store.identity = {kRun, 1, layout.hash()};
    store.log.file_bytes_max = log_file_bytes_;
    store.log.salt = 0x5a5a5a5a;
    auto shard = DurableShard::Open(
        options, layout, [this, store] { return ShardStore::Open(&files, folder, store); });
    if (!shard.ok()) return shard.status();
    shard_ = *std::move(shard);
    if (members_say_hello)
      for (uint32_t worker = 0; worker < 10; ++worker) shard_->Greeted(worker);
    return absl::OkStatus();
  }
  void Close() { shard_.reset(); }
  std::unique_ptr<DurableShard> Release() { return std::move(shard_); }
  // At the time of its next try.
  std::vector<ShardEffect> AfterReopening() {
    now = std::max(now, shard_->NextDue());
    return Do({});
  }

  DurableShard& shard() { return *shard_; }
  bool is_open() const { return shard_ != nullptr; }

  // Handles events as one wake-up of the data plane.
  std::vector<ShardEffect> Do(const std::vector<ShardEvent>& events) {
    for (const ShardEvent& event : events) {
      shard_->Step(event, now);
      const auto* const change = std::get_if<MembershipChanged>(&event);
      if (change == nullptr || !members_say_hello) continue;
      for (const Member& member : change->membership.members) shard_->Greeted(member.worker);
    }
    std::vector<ShardEffect> effects = shard_->Commit(now);
    shard_->Tend(now);
    return effects;
  }
  // A round of both segments by these workers.
  std::vector<ShardEffect> PushAll(const std::vector<uint32_t>& workers, uint32_t round) {
    std::vector<ShardEvent> events;
    for (const uint32_t worker : workers) {
      for (uint32_t segment = 2; segment < 4; ++segment) {
        events.push_back(TestPush(worker, round, segment));
      }
    }
    return Do(events);
  }
  // Answers requests like an honest member, and hash checks like the coordinator.
  void AnswerRequests(const std::vector<ShardEffect>& effects) {
    std::vector<ShardEvent> events;
    for (const auto& request : AllSent<RequestFrame>(effects)) {
      events.push_back(
          TestSnapshot(request.header.worker, request.header.round, request.header.segment));
    }
    Do(events);
    HashChecksArrived hash_checks;
    for (const SnapshotHash& hash : shard_->UnconfirmedSnapshots()) {
      hash_checks.hash_checks.push_back({hash.segment, hash.round, true});
    }
    if (!hash_checks.hash_checks.empty()) Do({hash_checks});
    while (shard_->NextDue() == absl::InfinitePast()) Do({});  // a snapshot each
  }

  SimFileSystem files;
  std::string folder = "state";
  DurableShardOptions options;
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  bool members_say_hello = true;  // to each process of the shard, at once

 private:
  const uint64_t log_file_bytes_;
  std::unique_ptr<DurableShard> shard_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_SHARD_STATE_SHARD_STATE_TESTING_H_
