// A node whose ranks are threads, in a run with a real coordinator and real shards.
#ifndef LONGWAVE_TESTS_UNIT_WORKER_MEMBER_NODE_TESTING_H_
#define LONGWAVE_TESTS_UNIT_WORKER_MEMBER_NODE_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/layout/segment_elements.h"
#include "common/metrics/metrics.h"
#include "server/service/coordinator_service.h"
#include "server/service/shard_service.h"
#include "tests/support/thread_node_link.h"
#include "worker/member/member.h"
#include "worker/member/member_place.h"
#include "worker/sync/fragments.h"

namespace longwave {

// Seven tiles, which are seven segments.
inline const Manifest kManifest = {{{"weights", {128, 192}}, {"bias", {300}}}};
inline constexpr size_t kParameters = 128 * 192 + 300;

// Hands calls on, except for what `post` and `next` do, which see each push before it is posted and
// each that has settled.
class WatchedExchange final : public Exchange {
 public:
  std::unique_ptr<Exchange> exchange;
  std::function<bool(const SegmentPush&)> post;  // false: the push is lost
  std::function<absl::Status(const std::optional<Settled>&)> next;

  absl::Status Post(SegmentPush push) override {
    return post(push) ? exchange->Post(std::move(push)) : absl::OkStatus();
  }
  absl::StatusOr<std::optional<Settled>> Next(absl::Duration timeout) override {
    absl::StatusOr<std::optional<Settled>> settled = exchange->Next(timeout);
    if (settled.ok()) LONGWAVE_RETURN_IF_ERROR(next(*settled));
    return settled;
  }
  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round) override {
    return exchange->Fetch(segment, from_round, until_round);
  }
  absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration timeout) override {
    return exchange->NextFetched(timeout);
  }
  absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload) override {
    return exchange->PostSnapshot(segment, round, std::move(payload));
  }
  absl::Status SetEndpoints(const std::vector<std::string>& shard_endpoints) override {
    return exchange->SetEndpoints(shard_endpoints);
  }
  uint32_t NewestOpenRound() const override { return exchange->NewestOpenRound(); }
  ByteCounts counts() const override { return exchange->counts(); }
};

// A process of a run: a node's ranks, each in a thread, or one device.
struct Process {
  RunConfig config;
  std::string name = "node";
  uint32_t ranks = 1;
  std::string state_dir;
  Metrics* metrics = nullptr;  // of rank 0
  // Called at a rank before a step, and at its end.
  std::function<void(uint32_t rank, uint64_t step, StopSignal& stop)> before_step =
      [](uint32_t, uint64_t, StopSignal&) {};
  std::function<void(uint32_t rank)> at_end = [](uint32_t) {};
  // Called while a rank writes its part of a checkpoint.
  std::function<void(uint32_t rank, ThreadNode&)> at_save = [](uint32_t, ThreadNode&) {};
  size_t kept_bytes = 0;  // by the loop of each rank, in a checkpoint
  std::function<void(uint32_t rank, WatchedExchange*)> watch;
  std::vector<std::vector<float>> gradients;  // by rank; none: θ moves in the step
  std::vector<std::optional<double>> losses;  // of a step, by rank
  std::vector<std::string> warnings;          // by rank

  std::vector<float> theta = std::vector<float>(kParameters);  // all ranks' elements
  std::vector<absl::Status> ended;                             // by rank
  std::atomic<bool> ends_now = false;
  uint64_t first_step = 0;
  uint64_t tokens = 0;

  void Run() {
    ThreadNode node(ranks);
    ended.assign(ranks, absl::OkStatus());
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        const std::unique_ptr<NodeLink> link = ranks == 1 ? nullptr : node.Link(r);
        ended[r] = Train(r, link.get(), node);
        at_end(r);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  absl::Status Train(uint32_t rank, NodeLink* link, ThreadNode& node) {
    StopSignal stop;
    const auto wrap = [&](std::unique_ptr<Exchange> exchange) -> std::unique_ptr<Exchange> {
      auto watched = std::make_unique<WatchedExchange>();
      watched->exchange = std::move(exchange);
      watch(rank, watched.get());
      return watched;
    };
    LONGWAVE_ASSIGN_OR_RETURN(
        const std::unique_ptr<MemberPlace> place,
        MemberPlace::Open({.config = config,
                           .name = name,
                           .state_dir = state_dir,
                           .manifest = kManifest,
                           .metrics = rank == 0 ? metrics : nullptr,
                           .link = link,
                           .wrap_exchange = watch ? wrap : MemberPlaceOptions().wrap_exchange},
                          &stop));
    LONGWAVE_ASSIGN_OR_RETURN(const uint32_t worker, place->Join(std::vector<float>(kParameters)));
    LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* const ops, OpsFor(BackendKind::kCpu));
    LONGWAVE_ASSIGN_OR_RETURN(
        MemberParts parts,
        place->Begin({.theta = theta.data(),
                      .gradient = gradients.empty() ? nullptr : gradients[rank].data(),
                      .ops = ops,
                      .initial_weights = [] { return std::vector<float>(kParameters); }}));
    if (rank < warnings.size()) place->Warn(warnings[rank]);
    Loop loop([&] { at_save(rank, node); }, kept_bytes);
    parts.loop = &loop;
    const absl::Status trained = TrainWith(rank, worker, parts, stop);
    return place->End(trained);
  }

  struct Loop final : TrainingLoop {
    Loop(std::function<void()> at_save, size_t kept_bytes)
        : saves(std::move(at_save)), kept(kept_bytes) {}
    absl::Status Save(std::vector<NamedBlob>* blobs) override {
      saves();
      if (!kept.empty()) blobs->push_back({"kept", Buffer(kept)});
      return absl::OkStatus();
    }
    const std::function<void()> saves;
    const std::vector<std::byte> kept;
  };

  absl::Status TrainWith(uint32_t rank, uint32_t worker, const MemberParts& parts,
                         StopSignal& stop) {
    TrainingMember member(parts);
    const std::vector<ElementRange> own = FragmentElements(*parts.layout, 0, 1, member.owned());
    LONGWAVE_ASSIGN_OR_RETURN(bool trains, member.Begin());
    if (rank == 0) first_step = member.step();
    while (trains) {
      before_step(rank, member.step(), stop);
      if (rank == 1 && ends_now) return absl::UnavailableError("as a process that was killed");
      // Each element goes its own way, so that a rank needs no other's.
      Rng rng(member.step(), worker);
      std::vector<float> noise(kParameters);
      for (float& value : noise) value = static_cast<float>(rng.Uniform() - 0.5);
      for (const auto& [begin, end] : own) {
        for (uint64_t i = begin; i < end; ++i) {
          const float truth = i % 3 == 0 ? 1 : -0.5f;
          const float gradient = theta[i] - truth + noise[i];
          if (gradients.empty()) {
            theta[i] -= 0.05f * gradient;
          } else {
            gradients[rank][i] = gradient;
          }
        }
      }
      LONGWAVE_ASSIGN_OR_RETURN(trains,
                                member.StepDone(8, losses.empty() ? 1.0 + rank : losses[rank]));
    }
    if (rank == 0) tokens = member.stats().tokens;
    return absl::OkStatus();
  }
};

class NodeTest : public ::testing::Test {
 protected:
  // folder: of the shards; empty: none.
  void StartRun(uint32_t workers, const std::vector<std::string>& settings = {},
                const std::string& folder = "") {
    std::vector<std::string> all = {absl::StrCat("run.workers=", workers),
                                    "run.shards=2",
                                    "run.steps=80",
                                    "sync.inner_steps=8",
                                    "sync.segment_tiles=1",
                                    "model.kind=external",
                                    "train.warmup_steps=0",
                                    "train.threads=1",
                                    "cluster.checkpoint_rounds=1",
                                    "cluster.heartbeat_interval_s=0.05"};
    all.insert(all.end(), settings.begin(), settings.end());
    config_ = *ParseConfig("{}", "node_test", all);
    coordinator_ = *CoordinatorService::Start(
        {.config = config_, .address = "127.0.0.1:0", .exit_when_done = true});
    config_.cluster.coordinator = coordinator_->address();
    running_.push_back(std::async([this] { return coordinator_->Run(stop_.get_token()); }));
    for (uint32_t s = 0; s < 2; ++s) {
      shards_.push_back(*ShardService::Start(
          {.config = config_,
           .shard = s,
           .coordinator = config_.cluster.coordinator,
           .data_endpoint = "tcp://127.0.0.1:0",
           .control_address = "127.0.0.1:0",
           .state_dir = folder.empty() ? "" : folder + "/shard-" + std::to_string(s)}));
      running_.push_back(
          std::async([this, s] { return shards_[s]->Run(stop_.get_token(), [] {}); }));
    }
  }
  // The run has ended, or is ended here.
  void EndRun(bool is_over, absl::StatusCode coordinated = absl::StatusCode::kOk) {
    if (!is_over) stop_.request_stop();
    EXPECT_EQ(running_[0].get().code(), coordinated);
    for (size_t i = 1; i < running_.size(); ++i) running_[i].wait();
    running_.clear();
    shards_.clear();
    coordinator_.reset();
    stop_ = {};
  }
  // The weights of a run with this node alone.
  std::vector<float> ThetaOf(uint32_t ranks, const std::vector<std::string>& settings = {}) {
    StartRun(1, settings);
    Process node{.config = config_, .ranks = ranks};
    node.Run();
    EXPECT_THAT(node.ended, ::testing::Each(absl::OkStatus()));
    EXPECT_EQ(node.tokens, 80u * 8 * ranks);
    EndRun(node.ended[0].ok());
    return node.theta;
  }

  RunConfig config_;
  std::stop_source stop_;
  std::unique_ptr<CoordinatorService> coordinator_;
  std::vector<std::unique_ptr<ShardService>> shards_;
  std::vector<std::future<absl::Status>> running_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_WORKER_MEMBER_NODE_TESTING_H_
