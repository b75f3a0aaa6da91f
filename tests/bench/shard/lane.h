#ifndef LONGWAVE_TESTS_BENCH_SHARD_LANE_H_
#define LONGWAVE_TESTS_BENCH_SHARD_LANE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>
#include <zmq.hpp>

#include "absl/status/status.h"
#include "common/wire/frame.h"
#include "tests/bench/shard/board.h"
#include "tests/bench/shard/load.h"
#include "tests/bench/shard/payloads.h"

namespace longwave {

// Private to the load: one of its threads, with some of the workers and their sockets.
class LoadLane {
 public:
  using Clock = std::chrono::steady_clock;

  // workers: places in options.workers. Throws zmq::error_t.
  LoadLane(const LoadOptions& options, const BenchPushes& pushes, LoadBoard* board,
           const std::vector<uint32_t>& workers);
  ~LoadLane();
  LoadLane(const LoadLane&) = delete;
  LoadLane& operator=(const LoadLane&) = delete;

  // On the lane's thread. Failures go to the board.
  void Greet();  // every shard by every worker, until all have answered
  void Run();    // a stretch of rounds, as the board has it

  // Of the last stretch, without the times.
  const LoadFigures& figures() const { return figures_; }
  // The workers' times of one segment and round.
  struct Times {
    Clock::time_point last_push = Clock::time_point::min();
    Clock::time_point first_merged = Clock::time_point::max();
  };
  const std::vector<Times>& times() const { return times_; }  // by round of the stretch, segment

 private:
  struct Worker {
    uint32_t place;  // in options.workers and pushes
    uint64_t round = 0;
    uint32_t missing = 0;               // segments of the round whose merged update has not come
    std::vector<uint64_t> rounds_done;  // by segment
  };
  struct Socket {
    zmq::socket_t dealer;
    uint32_t worker;  // in workers_
    uint32_t shard;
    bool dirty = false;
  };
  struct Retry {
    Clock::time_point due;
    uint32_t worker, segment;
  };

  Socket& SocketOf(uint32_t worker, uint32_t shard) {
    return sockets_[size_t{worker} * options_.endpoints.size() + shard];
  }
  void Begin(uint32_t worker);  // begins the worker's next round, if there is one
  void Push(uint32_t worker, uint32_t segment);
  void Send(Socket& socket, std::span<const std::byte> head, std::span<const std::byte> payload);

  // Receives frames until done() or a failure.
  template <typename Done>
  void Serve(const Done& done);
  void Wait();
  void PushAgain();
  absl::Status Drain(Socket& socket);
  absl::Status Take(Socket& socket, const zmq::message_t& head, const zmq::message_t& payload);
  absl::Status TakeAnswer(Socket& socket, const AnswerFrame& header,
                          std::span<const std::byte> payload);
  absl::Status TakeMerged(uint32_t worker, uint64_t round, uint32_t segment);
  void MarkDirty(Socket& socket);
  absl::Status Silence() const;

  const LoadOptions& options_;
  const BenchPushes& pushes_;
  LoadBoard* const board_;
  zmq::context_t context_;
  std::vector<Worker> workers_;
  std::vector<Socket> sockets_;  // by worker and shard
  std::vector<size_t> dirty_;    // sockets that may have frames waiting
  std::vector<Retry> retries_;   // of pushes that the shard was too busy for; by due time
  int epoll_fd_ = -1;
  uint32_t running_ = 0;  // workers in this stretch
  uint32_t greetings_missing_ = 0;
  Clock::time_point last_frame_;
  LoadFigures figures_;
  std::vector<Times> times_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_LANE_H_
