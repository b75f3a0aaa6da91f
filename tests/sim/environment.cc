#include "tests/sim/environment.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace longwave::sim {

WireFrame Seal(FrameHeader header, const Buffer& payload) {
  WireFrame frame{.header = {}, .payload = payload};
  LONGWAVE_CHECK(SetPayload(payload.bytes(), header).ok());
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
