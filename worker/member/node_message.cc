#include "worker/member/node_message.h"

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/base/errors.h"
#include "common/wire/byte_stream.h"
#include "common/wire/bytes.h"

namespace longwave {
namespace {

// The fields are listed once for writing and reading: `archive` is a Writer or a Reader.
class Writer {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void Do(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      out_.Put(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::same_as<T, bool>) {
      out_.Put(static_cast<uint8_t>(value));
    } else {
      out_.Put(value);
    }
  }
  void Do(const std::string& text) {
    Do(uint64_t{text.size()});
    out_.PutText(text);
  }
  std::string Take() {
    const auto bytes = out_.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  ByteWriter out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(std::as_bytes(std::span(bytes))) {}
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void Do(T& value) {
    if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(in_.Get<std::underlying_type_t<T>>());
    } else if constexpr (std::same_as<T, bool>) {
      value = in_.Get<uint8_t>() != 0;
    } else {
      value = in_.Get<T>();
    }
  }
  void Do(std::string& text) {
    uint64_t size = 0;
    Do(size);
    text = std::string(in_.GetText(size));
  }
  // The number of elements that follow, none beyond the message's bytes.
  uint64_t Count() {
    const auto count = in_.Get<uint64_t>();
    return count <= in_.left() ? count : (in_.GetBytes(count), 0);
  }
  bool done() const { return in_.done(); }

 private:
  ByteReader in_;
};

template <typename... T>
void Each(Writer& to, const T&... values) {
  (to.Do(values), ...);
}
template <typename... T>
void Each(Reader& from, T&... values) {
  (from.Do(values), ...);
}

template <typename T, typename Element>
void List(Writer& to, const std::vector<T>& list, Element element) {
  to.Do(uint64_t{list.size()});
  for (const T& one : list) element(one);
}
template <typename T, typename Element>
void List(Reader& from, std::vector<T>& list, Element element) {
  list.resize(from.Count());
  for (T& one : list) element(one);
}

template <typename Archive, typename T, typename Content>
void Maybe(Archive& archive, T& value, Content content) {
  bool has = value.has_value();
  archive.Do(has);
  if (has && !value.has_value()) {
    if constexpr (!std::is_const_v<T>) value.emplace();
  }
  if (has) content(*value);
}

void Times(Writer& to, const absl::Time& time) { to.Do(absl::ToUnixNanos(time)); }
void Times(Reader& from, absl::Time& time) {
  int64_t nanos = 0;
  from.Do(nanos);
  time = absl::FromUnixNanos(nanos);
}

void Statuses(Writer& to, const absl::Status& status) {
  Each(to, static_cast<int32_t>(status.code()), std::string(status.message()));
}
void Statuses(Reader& from, absl::Status& status) {
  int32_t code = 0;
  std::string text;
  Each(from, code, text);
  status = absl::Status(static_cast<absl::StatusCode>(code), text);
}

enum class EventKind : uint8_t { kUpdate, kSnapshot, kUpToDate, kRefused };

void Events(Writer& to, const FetchEvent& event) {
  if (const auto* fetched = std::get_if<Fetched>(&event)) {
    Each(to, fetched->is_snapshot ? EventKind::kSnapshot : EventKind::kUpdate, fetched->segment,
         fetched->round, std::string());
  } else if (const auto* end = std::get_if<UpToDate>(&event)) {
    Each(to, EventKind::kUpToDate, end->segment, end->open_round, std::string());
  } else {
    const auto& refused = std::get<FetchRefused>(event);
    Each(to, EventKind::kRefused, refused.segment, refused.round, refused.reason);
  }
}
void Events(Reader& from, FetchEvent& event) {
  EventKind kind{};
  uint32_t segment = 0, round = 0;
  std::string reason;
  Each(from, kind, segment, round, reason);
  switch (kind) {
    case EventKind::kUpdate:
    case EventKind::kSnapshot:
      event = Fetched{.segment = segment,
                      .round = round,
                      .is_snapshot = kind == EventKind::kSnapshot,
                      .payload = Buffer()};
      break;
    case EventKind::kUpToDate:
      event = UpToDate{.segment = segment, .open_round = round};
      break;
    case EventKind::kRefused:
      event = FetchRefused{.segment = segment, .round = round, .reason = std::move(reason)};
  }
}

template <typename Archive, typename Message>
void Fields(Archive& archive, Message& m) {
  const auto number = [&](auto& value) { archive.Do(value); };
  Each(archive, m.meeting);
  Statuses(archive, m.status);
  Each(archive, m.stop_requested, m.newest_open_round, m.bytes.pushed, m.bytes.pulled,
       m.bytes.payload_pushed, m.bytes.payload_pulled, m.renewals);
  List(archive, m.settled,
       [&](auto& each) { Each(archive, each.round, each.segment, each.fate, each.compacted); });
  List(archive, m.fetched, [&](auto& each) { Events(archive, each); });
  List(archive, m.hashes, number);
  Each(archive, m.tokens, m.loss);
  List(archive, m.figures, number);

  Times(archive, m.now);
  auto& d = m.directive;
  Each(archive, d.epoch, d.first_round, d.other_start, d.validates, d.sealing_round, d.sealed,
       d.final_answered);
  Maybe(archive, d.repair, [&](auto& repair) {
    Each(archive, repair.round);
    List(archive, repair.segments, number);
  });
  Maybe(archive, m.ended, [&](auto& ended) { Statuses(archive, ended); });
  Maybe(archive, m.endpoints, [&](auto& endpoints) { List(archive, endpoints, number); });
  Each(archive, m.run, m.worker, m.process, m.public_key, m.secret_key);
}

}  // namespace

std::string Encode(const NodeMessage& message) {
  Writer to;
  Fields(to, message);
  return to.Take();
}

absl::StatusOr<NodeMessage> DecodeNodeMessage(std::string_view bytes) {
  Reader from(bytes);
  NodeMessage message;
  Fields(from, message);
  if (from.done()) return message;
  return InvalidArgument("node: got a message that no rank of this release writes");
}

}  // namespace longwave
