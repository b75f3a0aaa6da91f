#ifndef LONGWAVE_TESTS_SUPPORT_SENT_FRAME_H_
#define LONGWAVE_TESTS_SUPPORT_SENT_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/shard/shard_effect.h"

namespace longwave {

// A frame that a shard sends, with the header of its kind.
template <typename Header>
struct SentFrame {
  std::vector<uint32_t> workers;
  Header header;
  Buffer payload;
  Rejection rejection = Rejection::kNone;

  std::string reason() const {  // of an answer
    return {reinterpret_cast<const char*>(payload.bytes().data()), payload.size()};
  }
};

// Nothing: the effect sends no frame of that kind.
template <typename Header>
std::optional<SentFrame<Header>> SentIn(const ShardEffect& effect) {
  const auto* const header = HeaderOf<Header>(effect);
  if (header == nullptr) return std::nullopt;
  const auto& send = std::get<SendFrame>(effect.what);
  return SentFrame<Header>{send.workers, *header, send.frame.payload(), send.rejection};
}
// Throws bad_optional_access where the effect sends none.
template <typename Header>
SentFrame<Header> Sent(const ShardEffect& effect) {
  return SentIn<Header>(effect).value();
}
template <typename Header>
std::vector<SentFrame<Header>> AllSent(const std::vector<ShardEffect>& effects) {
  std::vector<SentFrame<Header>> all;
  for (const ShardEffect& effect : effects) {
    if (auto sent = SentIn<Header>(effect)) all.push_back(*std::move(sent));
  }
  return all;
}

// The record that the effect logs; null: none of that kind.
template <typename Record>
const Record* LoggedIn(const ShardEffect& effect) {
  const auto* const keep = std::get_if<KeepRecord>(&effect.what);
  return keep == nullptr ? nullptr : std::get_if<Record>(&keep->record);
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_SENT_FRAME_H_
