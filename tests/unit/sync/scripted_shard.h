#ifndef LONGWAVE_TESTS_UNIT_SYNC_SCRIPTED_SHARD_H_
#define LONGWAVE_TESTS_UNIT_SYNC_SCRIPTED_SHARD_H_

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/link/link.h"

namespace longwave {

// A shard behind a real socket that closes nothing by itself. Every segment's open round is `open`.
// Pushes of earlier rounds are late, pushes of the open one are accepted and closed at once. The
// log has the rounds before, from `kept_from` on. A round's update is its number as text.
class ScriptedShard {
 public:
  struct Script {
    uint64_t incarnation = 1;
    uint32_t open = 0;
    uint32_t kept_from = 0;  // a fetch from before is answered with the state before this round
    bool answers = true;     // but the hello
    bool requests = false;   // for a snapshot of segments 0 and 1, at each hello
  };

  explicit ScriptedShard(Script script, const std::string& endpoint = "tcp://127.0.0.1:0")
      : script_(std::move(script)), router_(Bind(endpoint)) {
    endpoint_ = router_->endpoint();
    thread_ = std::thread([this] { Serve(); });
  }
  ~ScriptedShard() {
    stop_ = true;
    router_->Wake();
    thread_.join();
  }

  const std::string& endpoint() const { return endpoint_; }

  // Waits until `done` says so, of the headers that have come in so far.
  using Seen = std::vector<FrameHeader>;
  void Await(const std::function<bool(const Seen&)>& done) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done(seen_); });
  }
  size_t Count(FrameKind kind) const {
    const std::lock_guard lock(mutex_);
    return CountOf(seen_, kind);
  }
  static size_t CountOf(const Seen& seen, FrameKind kind) {
    size_t count = 0;
    for (const FrameHeader& header : seen) count += header.kind() == kind;
    return count;
  }

 private:
  // The port of a closed socket becomes free a moment later, unless another process has taken it.
  static std::unique_ptr<Router> Bind(const std::string& endpoint) {
    for (const absl::Time begin = MonotonicNow();;) {
      absl::StatusOr<std::unique_ptr<Router>> router = Router::Bind(endpoint);
      const bool may_be_closing = MonotonicNow() - begin < absl::Seconds(30);
      if (!absl::IsUnavailable(router.status()) || !may_be_closing)
        return std::move(router).value();
      std::this_thread::yield();
    }
  }

  void Serve() {
    while (!stop_) {
      auto received = router_->Receive(absl::Hours(1));
      if (!received.ok() || !received->has_value()) continue;
      const PeerFrame& arrived = **received;
      OnFrame(arrived.peer, arrived.frame.header);
      const std::lock_guard lock(mutex_);
      seen_.push_back(arrived.frame.header);
      changed_.notify_all();
    }
  }

  void OnFrame(const PeerId& peer, const FrameHeader& header) {
    const uint32_t taken = counts_[peer].taken++;
    const FrameName asked = header;
    if (const auto* hello = std::get_if<HelloFrame>(&header)) {
      Send(peer,
           WelcomeFrame{.run = hello->run,
                        .frames_missing = hello->frames_sent - taken,
                        .frames_sent = hello->frames_sent,
                        .worker = hello->worker,
                        .incarnation = script_.incarnation,
                        .shard_frames_sent = counts_[peer].sent},
           "");
      for (uint32_t s = 0; script_.requests && s < 2; ++s) {
        Send(peer, RequestFrame{.run = hello->run, .round = 7, .segment = s}, "");
      }
      return;
    }
    if (!script_.answers) return;
    switch (asked.kind) {
      case FrameKind::kPush:
        Answer(peer, asked, asked.round < script_.open ? Outcome::kLate : Outcome::kAccepted,
               script_.open);
        return SendMerged(peer, asked);
      case FrameKind::kPull:
        if (asked.round < script_.open) SendMerged(peer, asked);
        return;
      case FrameKind::kFetch:
        if (asked.round >= script_.kept_from) {
          return Answer(peer, asked, Outcome::kAccepted, script_.open);
        }
        return Send(
            peer,
            SnapshotFrame{.run = asked.run, .round = script_.kept_from, .segment = asked.segment},
            "state");
      case FrameKind::kSnapshot:
        return Answer(peer, asked, Outcome::kAccepted, script_.open);
      default:
        return;
    }
  }

  void Answer(const PeerId& peer, const FrameName& asked, Outcome outcome, uint32_t open_round) {
    Send(peer,
         AnswerFrame{.outcome = outcome,
                     .run = asked.run,
                     .round = asked.round,
                     .worker = asked.worker,
                     .segment = asked.segment,
                     .open_round = open_round,
                     .to = asked.kind},
         "");
  }
  void SendMerged(const PeerId& peer, const FrameName& asked) {
    Send(peer, MergedFrame{.run = asked.run, .round = asked.round, .segment = asked.segment},
         std::to_string(asked.round));
  }
  void Send(const PeerId& peer, const FrameHeader& header, const std::string& text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    ++counts_[peer].sent;
    EXPECT_TRUE(
        router_->Send(peer, header, Buffer(std::vector<std::byte>(bytes, bytes + text.size())))
            .ok());
  }

  const Script script_;
  std::unique_ptr<Router> router_;
  std::string endpoint_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Seen seen_;
  struct Counts {
    uint32_t taken = 0;
    uint32_t sent = 0;
  };
  std::map<PeerId, Counts> counts_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_SYNC_SCRIPTED_SHARD_H_
