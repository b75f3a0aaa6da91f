#include "common/rpc/message_fields.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/utf8.h"
#include "longwave/v1/coordinator.pb.h"
#include "longwave/v1/limits.pb.h"

namespace longwave {
namespace {

constexpr int kTextBytesMax = 1 << 16;
constexpr uint32_t kElementsMax = 1 << 20;

// Enums count from 1.
int LastOf(const google::protobuf::EnumDescriptor& choices) {
  return choices.value(choices.value_count() - 1)->number();
}

}  // namespace

std::vector<const FieldDescriptor*> FindFields(const google::protobuf::Descriptor& message,
                                               const char* names) {
  std::vector<const FieldDescriptor*> fields;
  for (const absl::string_view name : absl::StrSplit(names, ", ")) {
    fields.push_back(message.FindFieldByName(std::string(name)));
    LONGWAVE_CHECK(fields.back() != nullptr);
  }
  return fields;
}

void FieldReader::Read(const Message& message, Manifest* value) {
  auto field = FieldsOf<Manifest>(message).begin();
  Get(message, *field, &value->tensors);
  if (!status_.ok()) return;
  status_ = Validate(*value);
  const uint64_t claimed = dynamic_cast<const v1::Manifest&>(message).hash();
  if (const uint64_t hash = HashOf(*value); status_.ok() && hash != claimed) {
    status_ = InvalidArgument(
        absl::StrFormat("manifest: says hash %016x, its tensors have %016x", claimed, hash));
  }
}

// A kind's number is its field's.
void FieldReader::Read(const Message& message, TrafficByKind* value) {
  for (size_t kind = 1; kind <= TrafficByKind::kKinds; ++kind) {
    const FieldDescriptor* const field =
        message.GetDescriptor()->FindFieldByNumber(static_cast<int>(kind));
    Get(message, field, &(*value)[static_cast<FrameKind>(kind)]);
  }
}

double FieldReader::Number(const FieldDescriptor* field, double value) {
  const v1::NumberLimit limit = field->options().GetExtension(v1::number);
  if (limit == v1::DURATION && (!std::isfinite(value) || value < 0))
    Refuse(field, absl::StrCat("got ", value, ", wanted a duration of 0 or more"));
  if (limit == v1::FINITE && !std::isfinite(value))
    Refuse(field, absl::StrCat("got ", value, ", wanted a finite number"));
  return value;
}

int FieldReader::Choice(const FieldDescriptor* field, int value) {
  const int last = LastOf(*field->enum_type());
  if (value >= 1 && value <= last) return value;
  Refuse(field, absl::StrCat("got ", value, ", wanted 1 to ", last));
  return last;
}

const std::string& FieldReader::Text(const FieldDescriptor* field, const std::string& value) {
  const google::protobuf::FieldOptions& options = field->options();
  const v1::TextLimit limit = options.GetExtension(v1::text);
  const size_t key_bytes = options.GetExtension(v1::key_bytes);
  if (key_bytes != 0) {
    if (!value.empty() && value.size() != key_bytes)
      Refuse(field, value.size(), " bytes", key_bytes);
    return value;
  }
  if (limit == v1::NAME && FindControlCharacter(value, "") != std::string::npos)
    Refuse(field, absl::StrCat("got ", Quotable(value), ", wanted one without control characters"));
  const size_t bytes_max = limit == v1::TEXT ? kTextBytesMax : limit;
  if (value.size() > bytes_max) Refuse(field, value.size(), " bytes", bytes_max);
  return value;
}

bool FieldReader::AtMost(const FieldDescriptor* field, int count) {
  const uint32_t stated = field->options().GetExtension(v1::elements);
  const uint32_t limit = stated == 0 ? kElementsMax : stated;
  if (static_cast<uint32_t>(count) <= limit) return true;
  Refuse(field, count, "", limit);
  return false;
}

void FieldReader::Refuse(const FieldDescriptor* field, const std::string& got_and_wanted) {
  if (!status_.ok()) return;
  status_ = InvalidArgument(message_, ": ", field->name(), ": ", got_and_wanted);
}

void FieldReader::Refuse(const FieldDescriptor* field, size_t got, const char* unit,
                         size_t wanted) {
  const bool exact = field->options().GetExtension(v1::key_bytes) != 0 ||
                     field->options().GetExtension(v1::array_bytes) != 0;
  Refuse(field, absl::StrCat("got ", got, unit, ", wanted ", exact ? "" : "at most ", wanted));
}

std::string Clipped(const FieldDescriptor* field, const std::string& text) {
  const v1::TextLimit limit = field->options().GetExtension(v1::text);
  return limit == v1::SENTENCE || limit == v1::PATH ? Utf8Prefix(text, limit) : text;
}

absl::Status CheckTexts(const Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    if (field->type() != FieldDescriptor::TYPE_STRING || field->is_repeated()) continue;
    std::string scratch;
    const std::string& text = message.GetReflection()->GetStringReference(message, field, &scratch);
    if (FindInvalidUtf8(text) != std::string::npos)
      return InvalidArgument(field->name(), ": got ", Quotable(text), ", wanted UTF-8");
  }
  return absl::OkStatus();
}

void Write(const Manifest& value, Message* message) {
  auto& manifest = dynamic_cast<v1::Manifest&>(*message);
  Set(message, FieldsOf<Manifest>(*message).front(), value.tensors);
  manifest.set_hash(HashOf(value));
}

void Write(const TrafficByKind& value, Message* message) {
  for (size_t kind = 1; kind <= TrafficByKind::kKinds; ++kind) {
    const FieldDescriptor* const field =
        message->GetDescriptor()->FindFieldByNumber(static_cast<int>(kind));
    Set(message, field, value[static_cast<FrameKind>(kind)]);
  }
}

}  // namespace longwave
