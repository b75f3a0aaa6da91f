// write-calls calls|rpc SET FILE: prints the calls of a .proto's service, which is one of protoc's
// descriptor set. `calls` prints the functions that its clients and its handlers have, without
// protobuf:
//
//   // Ends the run: …                        class CoordinatorCalls {
//   rpc StopRun(StopRunRequest)                 // Ends the run: …
//       returns (StopRunResponse) {             virtual absl::Status StopRun(
//     option (call) = {caller: OPERATOR};           const std::string& reason) {
//   }                                             return NotServed("StopRun", reason);
//   message StopRunRequest {                    }
//     string reason = 1;
//   }
//
// `rpc` prints what is between them and gRPC, for common/rpc: the records of the messages, the
// client's functions (CoordinatorStub) and the server's (ServeCoordinator).
#include <cstdio>
#include <iostream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "longwave/v1/limits.pb.h"
#include "proto/proto_text.h"

namespace longwave {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

// A call as C++ has it.
struct Call {
  explicit Call(const MethodDescriptor& from)
      : method(from), options(from.options().GetExtension(v1::call)), function(options.function()) {
    if (function.empty()) function = method.name();
    const Descriptor& request = *method.input_type();
    if (const std::string record = RecordOf(request); !record.empty()) {
      types = {record};
      names = {"request"};
      declared = parameters = {absl::StrCat("const ", record, "& request")};
      return;
    }
    for (int i = 0; i < request.field_count(); ++i) {
      const FieldDescriptor& field = *request.field(i);
      const std::string initial = field.options().GetExtension(v1::initial);
      types.push_back(TypeOf(field));
      names.push_back(field.name());
      const bool by_value =
          !field.is_repeated() && field.cpp_type() != FieldDescriptor::CPPTYPE_STRING;
      parameters.push_back(absl::StrCat(by_value ? "" : "const ", types.back(),
                                        by_value ? " " : "& ", names.back()));
      declared.push_back(absl::StrCat(parameters.back(), initial.empty() ? "" : " = ", initial));
    }
  }

  // `first` and then the values, each by its name.
  std::string Names(std::string first = "") const {
    for (const std::string& name : names) absl::StrAppend(&first, first.empty() ? "" : ", ", name);
    return first;
  }
  std::string Answer() const {
    const Descriptor& response = *method.output_type();
    if (const std::string record = RecordOf(response); !record.empty())
      return absl::StrCat("absl::StatusOr<", record, ">");
    if (response.field_count() == 0) return "absl::Status";
    return absl::StrCat("absl::StatusOr<", TypeOf(*response.field(0)), ">");
  }
  // The lack of the proto; "": none.
  std::string Fault() const {
    const Descriptor& response = *method.output_type();
    if (options.caller() == v1::NOBODY) return "a caller";
    // Where calls are not secured nothing says who a token's holder or a member is.
    if ((options.caller() == v1::TOKEN || options.caller() == v1::ITSELF) && !options.admission())
      return "admission, which its caller wants";
    if (RecordOf(response).empty() && response.field_count() > 1)
      return absl::StrCat("option (record) of ", response.name());
    return "";
  }

  const MethodDescriptor& method;
  const v1::CallOptions options;
  std::string function;
  // Of the values that the function takes.
  std::vector<std::string> types, names, parameters;
  std::vector<std::string> declared;  // the parameters with their defaults
};

class CallsWriter {
 public:
  explicit CallsWriter(const FileDescriptor& file) : file_(file), service_(*file.service(0)) {
    for (int i = 0; i < service_.method_count(); ++i) calls_.emplace_back(*service_.method(i));
  }

  bool PrintCalls() const {
    std::set<std::string> includes = {"absl/status/status.h", "absl/status/statusor.h",
                                      "absl/strings/str_cat.h", StemOf(file_) + "records.h"};
    std::string functions;
    for (const Call& call : calls_) {
      if (const std::string fault = call.Fault(); !fault.empty()) {
        std::cerr << file_.name() << ": " << call.method.name() << ": lacks " << fault << "\n";
        return false;
      }
      for (const Descriptor* const message : {call.method.input_type(), call.method.output_type()})
        includes.insert(message->options().GetExtension(v1::header));
      absl::StrAppend(&functions, Comment(call.method, "  "), "  virtual ", call.Answer(), " ",
                      call.function, "(", absl::StrJoin(call.declared, ", "), ") {\n",
                      "    return NotServed(",
                      call.Names(absl::StrCat("\"", call.method.name(), "\"")), ");\n  }\n");
    }
    includes.erase("");
    const std::string name = service_.name() + "Calls";
    Begin();
    std::cout << "#include <cstdint>\n#include <string>\n\n";
    for (const std::string& path : includes) std::cout << "#include \"" << path << "\"\n";
    std::cout << "\nnamespace longwave {\n\n"
              << Comment(service_) << "class " << name << " {\n public:\n  virtual ~" << name
              << "() = default;\n\n"
              << functions
              << "\n private:\n"
                 "  // The answer of a class that lacks the function.\n"
                 "  template <typename... Values>\n"
                 "  static absl::Status NotServed(const char* call, const Values&...) {\n"
                 "    return absl::UnimplementedError(absl::StrCat(call, \" is not served\"));\n"
                 "  }\n};\n\n}  // namespace longwave\n";
    return true;
  }

  bool PrintRpc() const {
    Begin();
    std::cout << "#include \"common/rpc/message_fields.h\"\n"
              << "#include \"" << StemOf(file_) << "calls.h\"\n"
              << "#include \"" << StemOf(file_) << "grpc.pb.h\"\n\nnamespace longwave {\n\n";
    std::cout << "// The types alone: no code.\n";
    for (int i = 0; i < file_.message_type_count(); ++i) PrintRecordOf(*file_.message_type(i));
    PrintStub();
    PrintServe();
    std::cout << "\n}  // namespace longwave\n";
    return true;
  }

 private:
  void Begin() const {
    std::cout << "// Written by write-calls from " << file_.name() << ".\n#pragma once\n\n";
  }

  static void PrintRecordOf(const Descriptor& message) {
    if (const std::string record = RecordOf(message); !record.empty())
      std::cout << record << " RecordOf(const v1::" << message.name() << "&);\n";
  }

  void PrintStub() const {
    const std::string name = service_.name();
    std::cout << "\n// The calls as a client makes them. Base is a " << name
              << "Calls, and its Call makes one.\ntemplate <typename Base>\nclass " << name
              << "Stub : public Base {\n public:\n  using Base::Base;\n\n";
    for (const Call& call : calls_) {
      std::cout << "  " << call.Answer() << " " << call.function << "("
                << absl::StrJoin(call.parameters, ", ")
                << ") override {\n    return Base::template Call<" << call.Answer() << ">("
                << call.Names(absl::StrCat("&v1::", name, "::Stub::", call.method.name()))
                << ");\n  }\n";
    }
    std::cout << "};\n";
  }

  void PrintServe() const {
    const std::string name = service_.name();
    std::cout << "\n// The calls as a server answers them: service.Serve<Request, Response, "
                 "Values...>(name, function).\ntemplate <typename Service>\nvoid Serve"
              << name << "(Service& service) {\n  using Calls = " << name << "Calls;\n";
    for (const Call& call : calls_) {
      std::vector<std::string> types = {absl::StrCat("v1::", call.method.input_type()->name()),
                                        absl::StrCat("v1::", call.method.output_type()->name())};
      types.insert(types.end(), call.types.begin(), call.types.end());
      std::vector<std::string> parameters = {"Calls& handler"};
      parameters.insert(parameters.end(), call.parameters.begin(), call.parameters.end());
      std::cout << "  service.template Serve<" << absl::StrJoin(types, ", ") << ">(\n      \""
                << call.method.name() << "\", [](" << absl::StrJoin(parameters, ", ")
                << ") { return handler." << call.function << "(" << call.Names() << "); });\n";
    }
    std::cout << "}\n";
  }

  const FileDescriptor& file_;
  const ServiceDescriptor& service_;
  std::vector<Call> calls_;
};

}  // namespace
}  // namespace longwave

int main(int count, char** arguments) {
  const std::string_view what = count == 4 ? arguments[1] : "";
  if (what != "calls" && what != "rpc") {
    std::fputs("usage: write-calls calls|rpc SET FILE\n", stderr);
    return 2;
  }
  return longwave::WriteOf(arguments[2], arguments[3], [&](const auto& file) {
    const longwave::CallsWriter writer(file);
    return what == "calls" ? writer.PrintCalls() : writer.PrintRpc();
  });
}
