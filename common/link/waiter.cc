#include "common/link/waiter.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <vector>
#include <zmq.hpp>

#include "common/base/errors.h"

namespace longwave {
namespace {

class ZmqWaiter final : public Waiter {
 public:
  explicit ZmqWaiter(int wake_fd) : wake_fd_(wake_fd) {}
  ~ZmqWaiter() override { close(wake_fd_); }

  absl::Status Wait(std::span<const std::unique_ptr<Dealer>> dealers,
                    absl::Duration timeout) override {
    items_.clear();
    items_.push_back({nullptr, wake_fd_, ZMQ_POLLIN, 0});
    for (const auto& dealer : dealers) items_.push_back({dealer->handle(), 0, ZMQ_POLLIN, 0});
    // Rounded up, so that the rest of a millisecond is not a busy loop; an hour fits an int.
    const absl::Duration wait = std::clamp(absl::Ceil(timeout, absl::Milliseconds(1)),
                                           absl::ZeroDuration(), absl::Hours(1));
    try {
      zmq::poll(items_, std::chrono::milliseconds(absl::ToInt64Milliseconds(wait)));
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) return absl::OkStatus();
      return Internal("ZeroMQ, waiting: ", error.what());
    }
    if ((items_[0].revents & ZMQ_POLLIN) != 0) {
      uint64_t wakes = 0;
      [[maybe_unused]] const ssize_t drained = read(wake_fd_, &wakes, sizeof wakes);
    }
    return absl::OkStatus();
  }

  void Wake() override {
    const uint64_t one = 1;
    // A write fails only if the counter is at its maximum; then a wake-up is pending anyway.
    [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
  }

 private:
  const int wake_fd_;
  std::vector<zmq::pollitem_t> items_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Waiter>> Waiter::Create() {
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return ResourceExhausted("no file descriptor left for a waiter");
  return std::make_unique<ZmqWaiter>(wake_fd);
}

}  // namespace longwave
