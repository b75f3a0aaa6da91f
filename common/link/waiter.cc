#include "common/link/waiter.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>
#include <zmq.hpp>

#include "common/base/errors.h"

namespace longwave {

absl::Status Waiter::Wait(std::span<const std::unique_ptr<Dealer>> dealers,
                          absl::Duration timeout) {
  std::vector<zmq::pollitem_t> items = {{nullptr, wake_.fd(), ZMQ_POLLIN, 0}};
  for (const auto& dealer : dealers) items.push_back({dealer->handle(), 0, ZMQ_POLLIN, 0});
  // Rounded up, so that the rest of a millisecond is not a busy loop; an hour fits an int.
  const absl::Duration wait =
      std::clamp(absl::Ceil(timeout, absl::Milliseconds(1)), absl::ZeroDuration(), absl::Hours(1));
  try {
    zmq::poll(items, std::chrono::milliseconds(absl::ToInt64Milliseconds(wait)));
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return absl::OkStatus();
    return Internal("ZeroMQ, waiting: ", error.what());
  }
  if ((items[0].revents & ZMQ_POLLIN) != 0) wake_.Take();
  return absl::OkStatus();
}

}  // namespace longwave
