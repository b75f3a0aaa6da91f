#ifndef LONGWAVE_TESTS_UNIT_WORKER_MEMBER_MEMBER_TESTING_H_
#define LONGWAVE_TESTS_UNIT_WORKER_MEMBER_MEMBER_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/member/control_plane.h"
#include "worker/sync/exchange.h"

namespace longwave {

// A control plane of the test's making.
class RecordingHost final : public ControlPlane {
 public:
  Directive directive() const override {
    return {.epoch = 4,
            .first_round = first_round_,
            .other_start = other_start_,
            .validates = validates_,
            .repair = repair_,
            .sealing_round = sealing_round_,
            .sealed = sealed_,
            .final_answered = final_answered_};
  }
  bool stop_requested() const override { return stop; }
  std::optional<absl::Status> ended() const override {
    return is_over ? std::make_optional(absl::OkStatus()) : std::nullopt;
  }
  void SetState(const WorkerState& state) override {
    states.push_back(state);
    if (on_state) on_state(state);
  }
  // The journal's thread warns, too.
  void Warn(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    warnings_told.push_back(text);
  }
  void Report(RoundReport report) override {
    // A report of a sealing round has no loss.
    if (!report.train_loss) sealing_round_ = 0;
    reports.push_back(std::move(report));
    if (on_report) on_report(reports.back());
  }
  void SetReadyRound(uint32_t round) override {
    // Said again and again while it waits.
    if (ready_rounds.empty() || ready_rounds.back() != round) ready_rounds.push_back(round);
    if (on_ready) on_ready(round);
  }
  std::optional<std::vector<std::string>> TakeNewEndpoints() override {
    return std::exchange(new_endpoints, std::nullopt);
  }
  void Finish(const FinalReport& report) override {
    finals.push_back(report);
    final_answered_ = false;
  }
  absl::StatusOr<bool> AwaitEnd(absl::Duration) override {
    final_answered_ = on_finish && !on_finish();
    return !final_answered_;
  }

  bool validates_ = true;
  bool stop = false;
  bool is_over = false;
  uint32_t first_round_ = 0;
  bool final_answered_ = false;
  bool other_start_ = false;
  std::optional<std::vector<std::string>> new_endpoints;
  std::optional<Repair> repair_;
  uint32_t sealing_round_ = 1;  // the requested sealing round: the first one if 1 is below it
  bool sealed_ = true;
  std::function<void(const WorkerState&)> on_state;
  std::function<void(const RoundReport&)> on_report;
  std::function<void(uint32_t)> on_ready;
  std::function<bool()> on_finish;  // whether the run is over
  std::vector<WorkerState> states;
  std::vector<std::string> warnings_told;
  std::vector<RoundReport> reports;
  std::vector<FinalReport> finals;
  std::vector<uint32_t> ready_rounds;  // without repetitions

 private:
  std::mutex mutex_;
};

// Shards that keep everything: the log of each segment, perhaps a snapshot, and the fates of
// pushes. The test sets all of it. The worker and its journal's thread take turns; functions of the
// test are called within a turn.
class FakeShards final : public Exchange {
 public:
  explicit FakeShards(uint32_t segments) : logs(segments) {}

  struct Snapshot {
    uint32_t round = 0;
    Buffer payload;
  };

  uint32_t open_round(uint32_t segment) const {
    return static_cast<uint32_t>(logs[segment].size());
  }

  absl::Status Post(SegmentPush push) override {
    const std::lock_guard lock(mutex_);
    posts.push_back(push);
    pending.push_back(std::move(push));
    if (on_post) on_post();
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<Settled>> Next(absl::Duration) override {
    const std::lock_guard lock(mutex_);
    if (on_wait) on_wait();
    for (auto push = pending.begin(); push != pending.end(); ++push) {
      std::optional<Settled> settled = Settle(*push);
      if (!settled.has_value()) continue;
      pending.erase(push);
      return settled;
    }
    return std::nullopt;
  }

  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round) override {
    if (segment >= logs.size()) return absl::InvalidArgumentError("no such segment");
    fetches.push_back({segment, from_round, until_round});
    if (!refusal.empty()) {
      events_.push_back({.kind = FetchEvent::Kind::kRefused,
                         .segment = segment,
                         .round = from_round,
                         .reason = refusal});
      return absl::OkStatus();
    }
    uint32_t next = from_round;
    const auto snapshot = snapshots.find(segment);
    const bool has_nothing = from_round == kRoundNever;
    if (snapshot != snapshots.end() && (has_nothing || snapshot->second.round > from_round)) {
      next = snapshot->second.round;
      events_.push_back({FetchEvent::Kind::kSnapshot, segment, next, snapshot->second.payload});
    }
    for (; next < std::min(until_round, open_round(segment)); ++next) {
      events_.push_back({FetchEvent::Kind::kUpdate, segment, next, logs[segment][next]});
    }
    events_.push_back({FetchEvent::Kind::kUpToDate, segment, next});
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration) override {
    if (events_.empty()) {
      if (on_wait) on_wait();
      return std::nullopt;
    }
    FetchEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  uint32_t NewestOpenRound() const override {
    uint32_t newest = 0;
    for (uint32_t s = 0; s < logs.size(); ++s) newest = std::max(newest, open_round(s));
    return std::max(newest, rumoured_round);
  }

  std::optional<SnapshotRequest> NextRequest() override {
    if (asks.empty()) return std::nullopt;
    const SnapshotRequest request = asks.front();
    asks.pop_front();
    return request;
  }
  bool HasSnapshotRoom(uint32_t) const override { return has_snapshot_room; }
  absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload) override {
    given.push_back({SnapshotRequest{segment, round}, std::move(payload)});
    return absl::OkStatus();
  }
  absl::Status SetEndpoints(const std::vector<std::string>& shard_endpoints) override {
    endpoints = shard_endpoints;
    return absl::OkStatus();
  }
  ByteCounts counts() const override {
    const std::lock_guard lock(mutex_);
    return {.pushed = 10 * posts.size()};
  }

  struct FetchCall {
    uint32_t segment = 0;
    uint32_t from_round = 0;
    uint32_t until_round = 0;
    bool operator==(const FetchCall&) const = default;
  };

  std::vector<std::vector<Buffer>> logs;  // merged updates, by segment and round
  std::map<uint32_t, Snapshot> snapshots;
  std::string refusal;  // of fetches
  uint32_t rumoured_round = 0;
  // The fate of a push, and its merged update; nothing: unknown yet. By default: accepted alone if
  // its round is open, accepted if closed.
  std::function<std::optional<Settled>(const SegmentPush&)> on_settle;
  std::function<void()> on_wait;  // called when there is no event
  std::function<void()> on_post;

  std::deque<SnapshotRequest> asks;
  bool has_snapshot_room = true;
  std::vector<std::pair<SnapshotRequest, Buffer>> given;
  std::vector<std::string> endpoints;
  std::vector<SegmentPush> posts;
  std::vector<SegmentPush> pending;
  std::vector<FetchCall> fetches;

 private:
  std::optional<Settled> Settle(const SegmentPush& push) {
    if (on_settle) return on_settle(push);
    auto& log = logs[push.segment];
    if (push.round == log.size()) log.push_back(push.payload);
    return Settled{.round = push.round, .segment = push.segment, .merged = log[push.round]};
  }

  mutable std::mutex mutex_;
  std::deque<FetchEvent> events_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_WORKER_MEMBER_MEMBER_TESTING_H_
