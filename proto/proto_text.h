#ifndef LONGWAVE_PROTO_PROTO_TEXT_H_
#define LONGWAVE_PROTO_PROTO_TEXT_H_

// The common part of the generators of C++ from proto/longwave/v1.
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "longwave/v1/limits.pb.h"

namespace longwave {

using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

// The struct that the programs hold the message in; "": none.
inline std::string RecordOf(const google::protobuf::Descriptor& message) {
  return message.options().GetExtension(v1::record);
}

// RUN_PHASE_WAITING of RunPhase: kWaiting.
inline std::string ConstantOf(const google::protobuf::EnumValueDescriptor& value) {
  size_t prefix_words = 0;
  for (const char c : value.type()->name()) prefix_words += absl::ascii_isupper(c) ? 1 : 0;
  std::string name = "k";
  const std::vector<absl::string_view> words = absl::StrSplit(value.name(), '_');
  for (size_t i = prefix_words; i < words.size(); ++i)
    absl::StrAppend(&name, words[i].substr(0, 1), absl::AsciiStrToLower(words[i].substr(1)));
  return name;
}

// The type of a field, or of an element of it.
inline std::string ElementType(const FieldDescriptor& field) {
  const uint32_t array_bytes = field.options().GetExtension(v1::array_bytes);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return field.cpp_type_name();
    case FieldDescriptor::CPPTYPE_ENUM:
      return field.enum_type()->name();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return RecordOf(*field.message_type());
    case FieldDescriptor::CPPTYPE_STRING:
      if (array_bytes != 0) return absl::StrCat("std::array<std::byte, ", array_bytes, ">");
      return "std::string";
    default:
      return absl::StrCat(field.cpp_type_name(), "_t");
  }
}

inline std::string TypeOf(const FieldDescriptor& field) {
  const std::string type = ElementType(field);
  if (field.is_repeated()) return absl::StrCat("std::vector<", type, ">");
  if (field.has_optional_keyword()) return absl::StrCat("std::optional<", type, ">");
  return type;
}

// The file's name without "proto" at its end.
inline std::string StemOf(const FileDescriptor& file) {
  return std::string(absl::StripSuffix(file.name(), "proto"));
}

// The comments above and behind a declaration, as lines above it.
template <typename Type>
std::string Comment(const Type& type, const std::string& indent = "") {
  google::protobuf::SourceLocation location;
  type.GetSourceLocation(&location);
  const std::string text = absl::StrCat(location.leading_comments, location.trailing_comments);
  std::string lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
    absl::StrAppend(&lines, indent, "//", line, "\n");
  return lines;
}

// Calls `write` for the file of that name in protoc's descriptor set, and returns main's status.
inline int WriteOf(const char* set_file, const char* name,
                   const std::function<bool(const FileDescriptor&)>& write) {
  google::protobuf::FileDescriptorSet set;
  std::ifstream input(set_file, std::ios::binary);
  if (!set.ParseFromIstream(&input)) {
    std::cerr << set_file << ": no descriptor set of protoc\n";
    return 1;
  }
  google::protobuf::DescriptorPool pool;
  for (const google::protobuf::FileDescriptorProto& file : set.file()) pool.BuildFile(file);
  const FileDescriptor* const file = pool.FindFileByName(name);
  if (file == nullptr) {
    std::cerr << set_file << ": " << name << " is missing\n";
    return 1;
  }
  return write(*file) && std::cout.flush() ? 0 : 1;
}

}  // namespace longwave

#endif  // LONGWAVE_PROTO_PROTO_TEXT_H_
