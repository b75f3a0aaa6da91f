#include "common/link/sealed_frame.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longwave {

absl::StatusOr<SealedFrame> Seal(FrameHeader header, Buffer payload) {
  if (payload.size() > kPayloadBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(Name(header.kind())),
                                                   " frame: ", payload.size(),
                                                   " payload bytes, at most ", kPayloadBytesMax));
  }
  SealedFrame frame;
  LONGWAVE_RETURN_IF_ERROR(SetPayload(payload.bytes(), header));
  EncodeFrameHeader(header, frame.head_);
  frame.header_ = header;
  frame.payload_ = std::move(payload);
  return frame;
}

}  // namespace longwave
