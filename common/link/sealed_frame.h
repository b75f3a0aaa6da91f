#ifndef LONGWAVE_COMMON_LINK_SEALED_FRAME_H_
#define LONGWAVE_COMMON_LINK_SEALED_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"

namespace longwave {

// Bytes of one message part on the wire: a flag and a length of 1 byte, or of 8 bytes above 255
// (ZMTP 3.1, section 3.2), before the part itself.
constexpr uint64_t PartWireBytes(size_t part_bytes) {
  return part_bytes + (part_bytes <= 255 ? 2 : 9);
}

// Bytes of a frame on the wire: its header is a part, its payload another one unless it is empty.
constexpr uint64_t FrameWireBytes(size_t payload_bytes) {
  return PartWireBytes(kFrameHeaderBytes) + (payload_bytes > 0 ? PartWireBytes(payload_bytes) : 0);
}

// A frame ready to be sent, to one or to many: both CRCs are computed once, when it is sealed. A
// copy shares the payload.
class SealedFrame {
 public:
  // payload_bytes and payload_crc are those of the payload.
  const FrameHeader& header() const { return header_; }
  std::span<const std::byte, kFrameHeaderBytes> head() const { return head_; }
  const Buffer& payload() const { return payload_; }
  uint64_t wire_bytes() const { return FrameWireBytes(payload_.size()); }

 private:
  friend absl::StatusOr<SealedFrame> Seal(FrameHeader header, Buffer payload);
  SealedFrame() = default;

  FrameHeader header_;
  std::array<std::byte, kFrameHeaderBytes> head_;
  Buffer payload_;
};

// header's payload_bytes and payload_crc are filled in here. InvalidArgument: the payload is larger
// than kPayloadBytesMax.
absl::StatusOr<SealedFrame> Seal(FrameHeader header, Buffer payload);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_SEALED_FRAME_H_
