#include "tests/sim/environment.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/wire/crc32c.h"

namespace longwave::sim {

WireFrame Seal(FrameHeader header, const Buffer& payload) {
  WireFrame frame{.header = {}, .payload = payload};
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = Crc32c(payload.bytes());
  EncodeFrameHeader(header, frame.header);
  return frame;
}

FrameHeader Open(const WireFrame& frame, Checker* checker) {
  const absl::StatusOr<FrameHeader> header = DecodeFrameHeader(frame.header);
  absl::Status status = header.status();
  if (status.ok()) status = VerifyPayload(*header, frame.payload.bytes());
  if (!status.ok()) {
    checker->Violate(absl::StrCat("a frame that nobody can read: ", std::string(status.message())));
    return {};
  }
  return *header;
}

}  // namespace longwave::sim
