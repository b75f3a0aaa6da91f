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
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "proto/proto_text.h"

namespace longwave {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;

std::string Declaration(const FieldDescriptor& field) {
  const std::string declared = absl::StrCat(TypeOf(field), " ", field.name());
  if (field.is_repeated() || field.has_optional_keyword()) return absl::StrCat(declared, ";");
  std::string initial = field.options().GetExtension(v1::initial);
  if (field.enum_type() != nullptr)
    initial = absl::StrCat(TypeOf(field), "::", ConstantOf(*field.enum_type()->value(1)));
  return absl::StrCat(declared, "{", initial, "};");
}

// The header of ours that has the record; "": none.
std::string HeaderOf(const Descriptor& message) {
  return message.options().GetExtension(v1::header);
}

class HeaderWriter {
 public:
  explicit HeaderWriter(const FileDescriptor& file) : file_(file) {}

  void Print() {
    for (int i = 0; i < file_.message_type_count(); ++i) {
      const Descriptor& message = *file_.message_type(i);
      if (!RecordOf(message).empty() && HeaderOf(message).empty()) Add(message);
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
    if (const std::string header = HeaderOf(message); !header.empty()) {
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
    includes_.insert(StemOf(*type.file()) + "records.h");
    return false;
  }

  const FileDescriptor& file_;
  std::set<std::string> added_;
  std::set<std::string> includes_ = {"common/base/fields.h"};
  std::string types_;
};

}  // namespace
}  // namespace longwave

int main(int count, char** arguments) {
  const auto write = [](const google::protobuf::FileDescriptor& file) {
    longwave::HeaderWriter(file).Print();
    return true;
  };
  if (count == 3) return longwave::WriteOf(arguments[1], arguments[2], write);
  std::fputs("usage: write-records SET FILE\n", stderr);
  return 2;
}
