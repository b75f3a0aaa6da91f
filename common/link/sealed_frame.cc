#include "common/link/sealed_frame.h"

#include <utility>

#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {

absl::StatusOr<SealedFrame> Seal(FrameHeader header, Buffer payload) {
  if (payload.size() > kPayloadBytesMax) {
    return InvalidArgument(Name(header.kind()), " frame: ", payload.size(),
                           " payload bytes, at most ", kPayloadBytesMax);
  }
  SealedFrame frame;
  LONGWAVE_RETURN_IF_ERROR(SetPayload(payload.bytes(), header));
  EncodeFrameHeader(header, frame.head_);
  frame.header_ = header;
  frame.payload_ = std::move(payload);
  return frame;
}

}  // namespace longwave
