#ifndef LONGWAVE_COMMON_RPC_MESSAGE_FIELDS_H_
#define LONGWAVE_COMMON_RPC_MESSAGE_FIELDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/fields.h"
#include "common/layout/manifest.h"
#include "common/wire/traffic.h"
#include "google/protobuf/message.h"
#include "google/protobuf/reflection.h"

namespace longwave {

// Between records (common/base/fields.h) and messages of proto/, field by field by their names.
// Private to this folder, since it names protobuf.

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The fields of a message that have these names, "a, b, c", in their order. Each name must be one.
std::vector<const FieldDescriptor*> FindFields(const google::protobuf::Descriptor& message,
                                               const char* names);

template <Record T>
const std::vector<const FieldDescriptor*>& FieldsOf(const Message& message) {
  static const auto& fields =
      *new std::vector(FindFields(*message.GetDescriptor(), T::kFieldNames));
  return fields;
}

// Reads fields within the limits that the protos state (limits.proto). The first that breaks one
// is refused; reading goes on over it.
class FieldReader {
 public:
  // The name of the message that refusals begin with.
  explicit FieldReader(std::string message) : message_(std::move(message)) {}

  template <Record T>
  void Read(const Message& message, T* value) {
    auto field = FieldsOf<T>(message).begin();
    ForEachField(*value, [&](auto& part) { Get(message, *field++, &part); });
  }
  // Also what Validate says of it, and that it has the hash that it claims.
  void Read(const Message& message, Manifest* value);
  void Read(const Message& message, TrafficByKind* value);
  // All fields of a message, in their order.
  template <typename... Values>
  void ReadAll(const Message& message, Values*... values) {
    int i = 0;
    (Get(message, message.GetDescriptor()->field(i++), values), ...);
  }

  // InvalidArgument: "Message: field: got this, wanted that".
  const absl::Status& status() const { return status_; }

 private:
  using Reflection = google::protobuf::Reflection;

  template <typename T>
  void Get(const Message& message, const FieldDescriptor* field, T* value) {
    const Reflection& reflection = *message.GetReflection();
    if constexpr (std::is_same_v<T, bool>) {
      *value = reflection.GetBool(message, field);
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      *value = reflection.GetUInt32(message, field);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      *value = reflection.GetUInt64(message, field);
    } else if constexpr (std::is_same_v<T, double>) {
      *value = Number(field, reflection.GetDouble(message, field));
    } else if constexpr (std::is_enum_v<T>) {
      *value = static_cast<T>(Choice(field, reflection.GetEnumValue(message, field)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      std::string scratch;
      *value = Text(field, reflection.GetStringReference(message, field, &scratch));
    } else {
      Read(reflection.GetMessage(message, field), value);
    }
  }
  template <size_t kBytes>
  void Get(const Message& message, const FieldDescriptor* field,
           std::array<std::byte, kBytes>* value) {
    std::string text;
    Get(message, field, &text);
    if (text.size() != kBytes) return Refuse(field, text.size(), " bytes", kBytes);
    for (size_t i = 0; i < kBytes; ++i) (*value)[i] = static_cast<std::byte>(text[i]);
  }
  template <typename T>
  void Get(const Message& message, const FieldDescriptor* field, std::optional<T>* value) {
    if (message.GetReflection()->HasField(message, field)) Get(message, field, &value->emplace());
  }
  template <typename T>
  void Get(const Message& message, const FieldDescriptor* field, std::vector<T>* list) {
    const Reflection& reflection = *message.GetReflection();
    if (!AtMost(field, reflection.FieldSize(message, field))) return;
    if constexpr (std::is_arithmetic_v<T>) {
      const auto numbers = reflection.GetRepeatedFieldRef<T>(message, field);
      list->assign(numbers.begin(), numbers.end());
    } else if constexpr (std::is_same_v<T, std::string>) {
      for (const std::string& text : reflection.GetRepeatedFieldRef<T>(message, field))
        list->push_back(Text(field, text));
    } else {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i)
        Read(reflection.GetRepeatedMessage(message, field, i), &list->emplace_back());
    }
  }

  double Number(const FieldDescriptor* field, double value);
  int Choice(const FieldDescriptor* field, int value);
  const std::string& Text(const FieldDescriptor* field, const std::string& value);
  bool AtMost(const FieldDescriptor* field, int count);
  void Refuse(const FieldDescriptor* field, const std::string& got_and_wanted);
  void Refuse(const FieldDescriptor* field, size_t got, const char* unit, size_t wanted);

  const std::string message_;
  absl::Status status_;
};

template <Record T>
absl::StatusOr<T> ReadMessage(const Message& message) {
  FieldReader reader(message.GetDescriptor()->name());
  T value;
  reader.Read(message, &value);
  if (!reader.status().ok()) return reader.status();
  return value;
}

// `text` as its limit wants it: a writer clips what people read, and makes it valid UTF-8.
std::string Clipped(const FieldDescriptor* field, const std::string& text);

template <Record T>
void Write(const T& value, Message* message);
void Write(const Manifest& value, Message* message);  // with its hash
void Write(const TrafficByKind& value, Message* message);

template <typename T>
void Set(Message* message, const FieldDescriptor* field, const T& value) {
  const auto& reflection = *message->GetReflection();
  if constexpr (std::is_same_v<T, bool>) {
    reflection.SetBool(message, field, value);
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    reflection.SetUInt32(message, field, value);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    reflection.SetUInt64(message, field, value);
  } else if constexpr (std::is_same_v<T, double>) {
    reflection.SetDouble(message, field, value);
  } else if constexpr (std::is_enum_v<T>) {
    reflection.SetEnumValue(message, field, static_cast<int>(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    reflection.SetString(message, field, Clipped(field, value));
  } else {
    Write(value, reflection.MutableMessage(message, field));
  }
}
template <size_t kBytes>
void Set(Message* message, const FieldDescriptor* field,
         const std::array<std::byte, kBytes>& value) {
  Set(message, field, std::string(reinterpret_cast<const char*>(value.data()), kBytes));
}
template <typename T>
void Set(Message* message, const FieldDescriptor* field, const std::optional<T>& value) {
  if (value.has_value()) Set(message, field, *value);
}
template <typename T>
void Set(Message* message, const FieldDescriptor* field, const std::vector<T>& list) {
  const auto& reflection = *message->GetReflection();
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    auto values = reflection.GetMutableRepeatedFieldRef<T>(message, field);
    for (const T& value : list) values.Add(value);
  } else {
    for (const T& value : list) Write(value, reflection.AddMessage(message, field));
  }
}

template <Record T>
void Write(const T& value, Message* message) {
  auto field = FieldsOf<T>(*message).begin();
  ForEachField(value, [&](const auto& part) { Set(message, *field++, part); });
}

// All fields of a message, in their order.
template <typename... Values>
void WriteAll(Message* message, const Values&... values) {
  int i = 0;
  (Set(message, message->GetDescriptor()->field(i++), values), ...);
}

template <typename MessageType, Record T>
MessageType WriteMessage(const T& value) {
  MessageType message;
  Write(value, &message);
  return message;
}

// InvalidArgument: a text of the message itself is not UTF-8, and a receiver could not read it.
absl::Status CheckTexts(const Message& message);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_MESSAGE_FIELDS_H_
