#include "common/link/sealed_frame.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/crc32c.h"

namespace longwave {

absl::StatusOr<SealedFrame> Seal(FrameHeader header, Buffer payload) {
  if (payload.size() > kPayloadBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(Name(header.kind)),
                                                   " frame: ", payload.size(),
                                                   " payload bytes, at most ", kPayloadBytesMax));
  }
  SealedFrame frame;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = Crc32c(payload.bytes());
  EncodeFrameHeader(header, frame.head_);
  frame.header_ = header;
  frame.payload_ = std::move(payload);
  return frame;
}

}  // namespace longwave
