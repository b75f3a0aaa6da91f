// write-records SET FILE: prints the records of a .proto, which is one of protoc's descriptor set,
// as plain C++ structs with its comments. The pure cores know these and no protobuf; common/rpc
// converts between them and the messages.
//
//   // Segments of a replica that …         // Segments of a replica that …
//   message Repair {                       struct Repair {
//     option (record) = "Repair";            uint32_t round{};
//     uint32 round = 1;                      std::vector<uint32_t> segments;
//     repeated uint32 segments = 2;          LONGWAVE_FIELDS(round, segments)
//   }                                        bool operator==(const Repair&) const = default;
//                                          };
#include <cstdio>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "longwave/v1/limits.pb.h"

namespace longwave {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

std::string RecordOf(const Descriptor& message) {
  return message.options().GetExtension(v1::record);
}

// RUN_PHASE_WAITING of RunPhase: kWaiting.
std::string ConstantOf(const google::protobuf::EnumValueDescriptor& value) {
  size_t prefix_words = 0;
  for (const char c : value.type()->name()) prefix_words += absl::ascii_isupper(c) ? 1 : 0;
  std::string name = "k";
  const std::vector<absl::string_view> words = absl::StrSplit(value.name(), '_');
  for (size_t i = prefix_words; i < words.size(); ++i)
    absl::StrAppend(&name, words[i].substr(0, 1), absl::AsciiStrToLower(words[i].substr(1)));
  return name;
}

// The type of a field, or of an element of it.
std::string ElementType(const FieldDescriptor& field) {
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

std::string Declaration(const FieldDescriptor& field) {
  const std::string type = ElementType(field);
  if (field.is_repeated()) return absl::StrCat("std::vector<", type, "> ", field.name(), ";");
  if (field.has_optional_keyword())
    return absl::StrCat("std::optional<", type, "> ", field.name(), ";");
  std::string initial = field.options().GetExtension(v1::initial);
  if (field.enum_type() != nullptr)
    initial = absl::StrCat(type, "::", ConstantOf(*field.enum_type()->value(1)));
  return absl::StrCat(type, " ", field.name(), "{", initial, "};");
}

class HeaderWriter {
 public:
  explicit HeaderWriter(const FileDescriptor& file) : file_(file) {}

  void Print() {
    for (int i = 0; i < file_.message_type_count(); ++i) {
      if (!RecordOf(*file_.message_type(i)).empty()) Add(*file_.message_type(i));
    }
    std::cout << "// Written by write-records from " << file_.name() << ".\n#pragma once\n\n"
              << "#include <array>\n#include <cstddef>\n#include <cstdint>\n#include <optional>\n"
              << "#include <string>\n#include <vector>\n\n";
    for (const std::string& path : includes_) std::cout << "#include \"" << path << "\"\n";
    std::cout << "\nnamespace longwave {\n" << types_ << "\n}  // namespace longwave\n";
  }

 private:
  // Adds a type behind those of its fields.
  void Add(const Descriptor& message) {
    if (const std::string header = message.options().GetExtension(v1::header); !header.empty()) {
      includes_.insert(header);
      return;
    }
    if (!IsNew(message)) return;
    std::vector<std::string> names;
    std::string fields;
    for (int i = 0; i < message.field_count(); ++i) {
      const FieldDescriptor& field = *message.field(i);
      if (field.message_type() != nullptr) Add(*field.message_type());
      if (field.enum_type() != nullptr) Add(*field.enum_type());
      names.push_back(field.name());
      absl::StrAppend(&fields, Comment(field, "  "), "  ", Declaration(field), "\n");
    }
    const std::string name = RecordOf(message);
    absl::StrAppend(&types_, "\n", Comment(message), "struct ", name, " {\n", fields,
                    "  LONGWAVE_FIELDS(", absl::StrJoin(names, ", "), ")\n  bool operator==(const ",
                    name, "&) const = default;\n};\n");
  }

  // Without the value 0, which is protobuf's "unspecified".
  void Add(const EnumDescriptor& type) {
    if (!IsNew(type)) return;
    std::string values;
    for (int i = 1; i < type.value_count(); ++i) {
      const auto& value = *type.value(i);
      absl::StrAppend(&values, Comment(value, "  "), "  ", ConstantOf(value), " = ", value.number(),
                      ",\n");
    }
    absl::StrAppend(&types_, "\n", Comment(type), "enum class ", type.name(), " : uint8_t {\n",
                    values, "};\n");
  }

  template <typename Type>
  bool IsNew(const Type& type) {
    if (type.file() == &file_) return added_.insert(type.full_name()).second;
    includes_.insert(absl::StrCat(absl::StripSuffix(type.file()->name(), "proto"), "records.h"));
    return false;
  }

  // The comments above and behind a declaration, as lines above it.
  template <typename Type>
  static std::string Comment(const Type& type, const std::string& indent = "") {
    google::protobuf::SourceLocation location;
    type.GetSourceLocation(&location);
    const std::string text = absl::StrCat(location.leading_comments, location.trailing_comments);
    std::string lines;
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
      absl::StrAppend(&lines, indent, "//", line, "\n");
    return lines;
  }

  const FileDescriptor& file_;
  std::set<std::string> added_;
  std::set<std::string> includes_ = {"common/base/fields.h"};
  std::string types_;
};

int Main(const char* set_file, const char* name) {
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
  HeaderWriter(*file).Print();
  return std::cout.flush() ? 0 : 1;
}

}  // namespace
}  // namespace longwave

int main(int count, char** arguments) {
  if (count == 3) return longwave::Main(arguments[1], arguments[2]);
  std::fputs("usage: write-records SET FILE\n", stderr);
  return 2;
}
