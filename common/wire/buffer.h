#ifndef LONGWAVE_COMMON_WIRE_BUFFER_H_
#define LONGWAVE_COMMON_WIRE_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace longwave {

// Immutable bytes with shared ownership, so that a payload goes from encoder to socket, and from
// socket to merge to many sockets, without a copy. The owner keeps the bytes alive.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::vector<std::byte> bytes) {
    auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    bytes_ = *owner;
    owner_ = std::move(owner);
  }
  Buffer(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool operator==(const Buffer& other) const { return std::ranges::equal(bytes_, other.bytes_); }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_BUFFER_H_
