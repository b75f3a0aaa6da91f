#include "worker/member/node_message.h"

#include <span>

#include "common/base/errors.h"
#include "common/wire/field_codec.h"

namespace longwave {

std::string Encode(const NodeMessage& message) {
  FieldWriter out;
  out(message);
  const std::vector<std::byte> bytes = out.Take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::StatusOr<NodeMessage> DecodeNodeMessage(std::string_view bytes) {
  FieldReader in(std::as_bytes(std::span(bytes)));
  NodeMessage message;
  in(message);
  if (in.done() && in.good()) return message;
  return InvalidArgument("node: got a message that no rank of this release writes");
}

}  // namespace longwave
