#ifndef LONGWAVE_COMMON_LINK_PEER_FRAME_H_
#define LONGWAVE_COMMON_LINK_PEER_FRAME_H_

#include <string>

#include "common/wire/buffer.h"
#include "common/wire/frame.h"

namespace longwave {

// A frame that has come in and is verified.
struct Frame {
  FrameHeader header;
  Buffer payload;
};

// Identifies a connection to a router, as long as it stands.
using PeerId = std::string;

struct PeerFrame {
  PeerId peer;
  Frame frame;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_PEER_FRAME_H_
