#include "tests/bench/shard/load.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <thread>
#include <utility>
#include <zmq.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "tests/bench/shard/board.h"
#include "tests/bench/shard/lane.h"

namespace longwave {
namespace {

double OwnProcessorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class LoadImpl final : public Load {
 public:
  LoadImpl(const LoadOptions& options, const BenchPushes* pushes)
      : options_(options), pushes_(pushes), board_(pushes->segments(), options.kept_rounds) {
    const size_t lanes = std::clamp<size_t>(options.threads, 1, options.workers.size());
    for (size_t lane = 0; lane < lanes; ++lane) {
      std::vector<uint32_t> places;
      for (size_t i = lane; i < options.workers.size(); i += lanes) {
        places.push_back(static_cast<uint32_t>(i));
      }
      lanes_.push_back(std::make_unique<LoadLane>(options_, *pushes_, &board_, std::move(places)));
    }
  }

  absl::Status Greet() {
    OnAllLanes(&LoadLane::Greet);
    return board_.status();
  }

  absl::StatusOr<LoadFigures> Run(uint64_t rounds, absl::Duration duration) override {
    const double processor_before = OwnProcessorSeconds();
    const absl::Time begin = MonotonicNow();
    board_.Open(rounds, begin + duration);
    OnAllLanes(&LoadLane::Run);
    const double seconds = absl::ToDoubleSeconds(MonotonicNow() - begin);
    LONGWAVE_RETURN_IF_ERROR(board_.status());
    LoadFigures figures;
    for (const auto& lane : lanes_) figures.Add(lane->figures());
    figures.rounds = lanes_.front()->figures().rounds;
    figures.seconds = seconds;
    figures.generator_seconds = OwnProcessorSeconds() - processor_before;
    figures.close_seconds = CloseSeconds();
    return figures;
  }

  const std::vector<std::byte>& Kept(uint32_t round, uint32_t segment) const override {
    return board_.Kept(round, segment);
  }

 private:
  void OnAllLanes(void (LoadLane::*step)()) {
    std::vector<std::thread> threads;
    for (const auto& lane : lanes_) {
      threads.emplace_back([this, step, &lane] {
        try {
          std::invoke(step, *lane);
        } catch (const zmq::error_t& error) {
          board_.Fail(absl::InternalError(absl::StrCat("ZeroMQ: ", error.what())));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<double> CloseSeconds() const {
    std::vector<double> seconds;
    for (size_t row = 0; row < lanes_.front()->times().size(); ++row) {
      LoadLane::Times all;
      for (const auto& lane : lanes_) {
        const LoadLane::Times& times = lane->times()[row];
        all.last_push = std::max(all.last_push, times.last_push);
        all.first_merged = std::min(all.first_merged, times.first_merged);
      }
      seconds.push_back(std::chrono::duration<double>(all.first_merged - all.last_push).count());
    }
    return seconds;
  }

  const LoadOptions options_;
  const BenchPushes* const pushes_;
  LoadBoard board_;
  std::vector<std::unique_ptr<LoadLane>> lanes_;
};

}  // namespace

void LoadFigures::Add(const LoadFigures& other) {
  seconds += other.seconds;
  generator_seconds += other.generator_seconds;
  rounds += other.rounds;
  pushes += other.pushes;
  accepted += other.accepted;
  busy += other.busy;
  refused += other.refused;
  merged += other.merged;
  disagreements += other.disagreements;
  payload_sent += other.payload_sent;
  payload_received += other.payload_received;
  frame_bytes_sent += other.frame_bytes_sent;
  frame_bytes_received += other.frame_bytes_received;
  close_seconds.insert(close_seconds.end(), other.close_seconds.begin(), other.close_seconds.end());
}

absl::StatusOr<std::unique_ptr<Load>> Load::Connect(const LoadOptions& options,
                                                    const BenchPushes* pushes) {
  try {
    auto load = std::make_unique<LoadImpl>(options, pushes);
    LONGWAVE_RETURN_IF_ERROR(load->Greet());
    return load;
  } catch (const zmq::error_t& error) {
    return absl::InternalError(absl::StrCat("ZeroMQ: ", error.what()));
  }
}

}  // namespace longwave
