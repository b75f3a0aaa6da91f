#ifndef LONGWAVE_COMMON_WIRE_FIELD_CODEC_H_
#define LONGWAVE_COMMON_WIRE_FIELD_CODEC_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/fields.h"
#include "common/wire/byte_stream.h"

namespace longwave {

// Records as bytes, field by field (LONGWAVE_FIELDS): integers and doubles little-endian, a bool
// and an enum as one byte, a text and a list after its 64-bit length, an optional after a bool, a
// time as nanoseconds since 1970, a status as its code and message. Other fields are records.
class FieldWriter : public ByteWriter {
 public:
  template <typename T>
  void operator()(const T& value) {
    if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
      Put(static_cast<uint8_t>(value));
    } else if constexpr (std::is_same_v<T, double>) {
      Put(std::bit_cast<uint64_t>(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      PutSizedText(value);
    } else if constexpr (std::is_integral_v<T>) {
      Put(static_cast<std::make_unsigned_t<T>>(value));
    } else if constexpr (std::is_same_v<T, absl::Time>) {
      (*this)(absl::ToUnixNanos(value));
    } else if constexpr (std::is_same_v<T, absl::Status>) {
      (*this)(value.raw_code());
      PutSizedText(std::string(value.message()));
    } else {
      ForEachField(value, [this](auto& field) { (*this)(field); });
    }
  }
  template <typename T>
  void operator()(const std::vector<T>& list) {
    Put<uint64_t>(list.size());
    for (const T& one : list) (*this)(one);
  }
  template <typename T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  template <typename A, typename B>
  void operator()(const std::pair<A, B>& pair) {
    (*this)(pair.first);
    (*this)(pair.second);
  }
  template <typename A, typename B, typename... More>
  void operator()(const A& first, const B& second, const More&... more) {
    (*this)(first);
    (*this)(second, more...);
  }
};

// Reads what FieldWriter has written. An enum with a function LastOf(Enum), the last of values that
// count from 1, may have no other.
class FieldReader : public ByteReader {
 public:
  using ByteReader::ByteReader;

  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = Get<uint8_t>();
      good_ &= byte <= 1;
      value = byte == 1;
    } else if constexpr (std::is_enum_v<T>) {
      const auto byte = Get<uint8_t>();
      if constexpr (requires { LastOf(T{}); })
        good_ &= byte >= 1 && byte <= static_cast<uint8_t>(LastOf(T{}));
      value = static_cast<T>(byte);
    } else if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(Get<uint64_t>());
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = GetSizedText();
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(Get<std::make_unsigned_t<T>>());
    } else if constexpr (std::is_same_v<T, absl::Time>) {
      value = absl::FromUnixNanos(static_cast<int64_t>(Get<uint64_t>()));
    } else if constexpr (std::is_same_v<T, absl::Status>) {
      const auto code = static_cast<absl::StatusCode>(Get<uint32_t>());
      value = absl::Status(code, GetSizedText());
    } else {
      ForEachField(value, [this](auto& field) { (*this)(field); });
    }
  }
  template <typename T>
  void operator()(std::vector<T>& list) {
    const auto count = Get<uint64_t>();
    // Whatever the count says, it ends where the bytes do.
    for (uint64_t i = 0; i < count && ok(); ++i) (*this)(list.emplace_back());
  }
  template <typename T>
  void operator()(std::optional<T>& value) {
    bool has_value = false;
    (*this)(has_value);
    if (has_value) (*this)(value.emplace());
  }
  template <typename A, typename B>
  void operator()(std::pair<A, B>& pair) {
    (*this)(pair.first);
    (*this)(pair.second);
  }
  template <typename A, typename B, typename... More>
  void operator()(A& first, B& second, More&... more) {
    (*this)(first);
    (*this)(second, more...);
  }

  // Whether each value was one of its kind.
  bool good() const { return good_; }

 private:
  bool good_ = true;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_FIELD_CODEC_H_
