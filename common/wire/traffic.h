#ifndef LONGWAVE_COMMON_WIRE_TRAFFIC_H_
#define LONGWAVE_COMMON_WIRE_TRAFFIC_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/fields.h"
#include "common/wire/frame.h"

namespace longwave {

// Frames of one direction.
struct Traffic {
  uint64_t frames = 0;
  uint64_t bytes = 0;          // on the wire, headers and framing included
  uint64_t payload_bytes = 0;  // the payloads alone
  LONGWAVE_FIELDS(frames, bytes, payload_bytes)
  Traffic& operator+=(const Traffic& other) {
    frames += other.frames;
    bytes += other.bytes;
    payload_bytes += other.payload_bytes;
    return *this;
  }
  bool operator==(const Traffic&) const = default;
};

// Traffic by kind of frame.
class TrafficByKind {
 public:
  static constexpr size_t kKinds = static_cast<size_t>(FrameKind::kRequest);

  Traffic& operator[](FrameKind kind) { return traffic_[static_cast<size_t>(kind) - 1]; }
  const Traffic& operator[](FrameKind kind) const {
    return traffic_[static_cast<size_t>(kind) - 1];
  }

  Traffic Total() const {
    Traffic total;
    for (const Traffic& traffic : traffic_) total += traffic;
    return total;
  }
  TrafficByKind& operator+=(const TrafficByKind& other) {
    for (size_t i = 0; i < kKinds; ++i) traffic_[i] += other.traffic_[i];
    return *this;
  }
  bool operator==(const TrafficByKind&) const = default;

 private:
  std::array<Traffic, kKinds> traffic_;  // FrameKind counts from 1
};

// Traffic between one process and another, or all others.
struct LinkTraffic {
  TrafficByKind sent;
  TrafficByKind received;
  LONGWAVE_FIELDS(sent, received)
  LinkTraffic& operator+=(const LinkTraffic& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
  bool operator==(const LinkTraffic&) const = default;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_TRAFFIC_H_
