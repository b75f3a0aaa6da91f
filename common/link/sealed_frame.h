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

// Whether a link's parts are encrypted, which adds bytes to each frame.
enum class Encryption : uint8_t { kNone, kCurve };

// The bytes that CURVE adds to a part (CurveZMQ, RFC 26, its MESSAGE command): the command's name
// with its length, a short nonce, the authenticator, and a byte of flags in the box.
inline constexpr uint64_t kCurvePartBytes = 8 + 8 + 16 + 1;

// Bytes of one message part on the wire: a flag, a length of 1 byte (8 bytes above 255; ZMTP 3.1,
// section 3.2), and the part, or the command that the part is encrypted in.
constexpr uint64_t PartWireBytes(size_t part_bytes, Encryption encryption) {
  const uint64_t body = part_bytes + (encryption == Encryption::kCurve ? kCurvePartBytes : 0);
  return body + (body <= 255 ? 2 : 9);
}

// Bytes of a frame on the wire: the header is a part, and so is a payload that is not empty.
constexpr uint64_t FrameWireBytes(size_t payload_bytes, Encryption encryption) {
  return PartWireBytes(kFrameHeaderBytes, encryption) +
         (payload_bytes > 0 ? PartWireBytes(payload_bytes, encryption) : 0);
}

// A frame ready to be sent, to one or many peers: sealing computes both CRCs once. Copies share the
// payload.
class SealedFrame {
 public:
  // payload_bytes and payload_crc are those of the payload.
  const FrameHeader& header() const { return header_; }
  std::span<const std::byte, kFrameHeaderBytes> head() const { return head_; }
  const Buffer& payload() const { return payload_; }
  // The frame's bytes on a link with that encryption.
  uint64_t wire_bytes(Encryption encryption) const {
    return FrameWireBytes(payload_.size(), encryption);
  }

 private:
  friend absl::StatusOr<SealedFrame> Seal(FrameHeader header, Buffer payload);
  SealedFrame() = default;

  FrameHeader header_;
  std::array<std::byte, kFrameHeaderBytes> head_;
  Buffer payload_;
};

// Fills in header's payload_bytes and payload_crc. Errors: InvalidArgument (the payload is larger
// than kPayloadBytesMax, or the kind has none).
absl::StatusOr<SealedFrame> Seal(FrameHeader header, Buffer payload);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_SEALED_FRAME_H_
