#include "server/shard/shard_effect.h"

#include <cstddef>
#include <utility>

#include "common/base/check.h"

namespace longwave {

SealedFrame SealFitting(const FrameHeader& header, Buffer payload) {
  absl::StatusOr<SealedFrame> sealed = Seal(header, std::move(payload));
  LONGWAVE_CHECK(sealed.ok());
  return *std::move(sealed);
}

SendFrame AnswerWith(const FrameHeader& header, std::string_view reason, Rejection rejection) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(reason.data());
  Buffer payload;
  if (!reason.empty()) payload = Buffer(std::vector<std::byte>(bytes, bytes + reason.size()));
  return {.workers = {header.worker()},
          .frame = SealFitting(header, std::move(payload)),
          .rejection = rejection};
}

}  // namespace longwave
