#ifndef LONGWAVE_COMMON_BASE_FIELDS_H_
#define LONGWAVE_COMMON_BASE_FIELDS_H_

#include <tuple>

// Names the fields of a record once for every coder of it: the messages of proto/ (common/rpc), by
// these names, and bytes on a disk or between ranks (common/wire/field_codec.h), in this order.
//
//   struct Repair {
//     uint32_t round = 0;
//     std::vector<uint32_t> segments;
//     LONGWAVE_FIELDS(round, segments)
//   };
#define LONGWAVE_FIELDS(...)                               \
  static constexpr const char* kFieldNames = #__VA_ARGS__; \
  auto Fields() { return std::tie(__VA_ARGS__); }          \
  auto Fields() const { return std::tie(__VA_ARGS__); }

namespace longwave {

template <typename T>
concept Record = requires(T& value) {
  T::kFieldNames;
  value.Fields();
};

// Calls `code` with each field of `value`, in their order.
template <typename Value, typename Code>
void ForEachField(Value& value, const Code& code) {
  std::apply([&](auto&... fields) { (code(fields), ...); }, value.Fields());
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_FIELDS_H_
