#ifndef LONGWAVE_COMMON_LINK_PEER_FRAME_H_
#define LONGWAVE_COMMON_LINK_PEER_FRAME_H_

#include <string>

#include "common/wire/buffer.h"
#include "common/wire/frame.h"

namespace longwave {

// A frame that was received and verified.
struct Frame {
  FrameHeader header;
  Buffer payload;
};

// A connection to a router, while it lasts.
using PeerId = std::string;

struct PeerFrame {
  PeerId peer;
  Frame frame;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_PEER_FRAME_H_
