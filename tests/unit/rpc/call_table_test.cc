// The table in docs/reference/security.md of who may make which call, which
//   LONGWAVE_WRITE_DOCS=1 build/tests/rpc_test --gtest_filter='CallTable.*'
// writes from the options in proto/longwave/v1.
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/new_file.h"
#include "common/security/credentials.h"
#include "gtest/gtest.h"
#include "longwave/v1/coordinator.pb.h"
#include "longwave/v1/limits.pb.h"
#include "longwave/v1/probe.pb.h"
#include "longwave/v1/shard.pb.h"

namespace longwave {
namespace {

constexpr char kPage[] = LONGWAVE_SOURCE_DIR "/docs/reference/security.md";
constexpr char kHead[] = "| call | who may | its request, at most |\n";

std::string TextOf(v1::Caller caller) {
  switch (caller) {
    case v1::ANYBODY:
      return "anybody";
    case v1::TOKEN:
      return "whoever has a token of this run";
    case v1::MEMBER:
      return "everybody of the run";
    case v1::ITSELF:
      return "everybody of the run, for itself";
    case v1::WORKER:
      return "the worker of that name alone";
    case v1::SHARD:
      return "the shard of that index alone";
    case v1::OPERATOR:
      return "an operator, or the coordinator itself";
    default:
      return "nobody";
  }
}

std::string SizeOf(const google::protobuf::MethodDescriptor& method) {
  if (method.input_type()->field_count() == 0) return "is not read";
  const uint32_t bytes = method.options().GetExtension(v1::call).request_bytes();
  if (bytes == 0) return "64 MiB";
  return bytes < 1 << 20 ? absl::StrCat(bytes >> 10, " KiB") : absl::StrCat(bytes >> 20, " MiB");
}

std::string Table() {
  std::string table = absl::StrCat(kHead, "|---|---|---|\n");
  for (const auto* const message :
       {v1::GetStatusRequest::descriptor(), v1::GetShardStatusRequest::descriptor(),
        v1::MeasureRequest::descriptor()}) {
    const auto& service = *message->file()->service(0);
    for (int i = 0; i < service.method_count(); ++i) {
      const auto& method = *service.method(i);
      absl::StrAppend(&table, "| `", method.name(), "` | ",
                      TextOf(method.options().GetExtension(v1::call).caller()), " | ",
                      SizeOf(method), " |\n");
    }
  }
  return table;
}

TEST(CallTable, IsDocsSecuritys) {
  const auto page = ReadTextFile(kPage);
  ASSERT_TRUE(page.ok()) << page.status();
  const size_t begin = page->find(kHead);
  ASSERT_NE(begin, std::string::npos) << "no line " << kHead;
  size_t end = begin;
  while (page->compare(end, 1, "|") == 0) end = page->find('\n', end) + 1;
  if (std::getenv("LONGWAVE_WRITE_DOCS") != nullptr) {
    const std::string now = absl::StrCat(page->substr(0, begin), Table(), page->substr(end));
    ASSERT_TRUE(WriteFile(kPage, now, kPublicFile).ok());
    return;
  }
  EXPECT_EQ(page->substr(begin, end - begin), Table())
      << "run LONGWAVE_WRITE_DOCS=1 build/tests/rpc_test --gtest_filter='CallTable.*'";
}

// A payload of the largest size passes.
TEST(CallTable, AMeasurementsLimitIsThatOfItsPayload) {
  v1::MeasureRequest request;
  request.set_payload(std::string(4 << 20, 'x'));
  request.set_answer_bytes(4 << 20);
  const auto& measure = *request.GetDescriptor()->file()->service(0)->FindMethodByName("Measure");
  const size_t bytes_max = measure.options().GetExtension(v1::call).request_bytes();
  EXPECT_LE(request.ByteSizeLong(), bytes_max);
  EXPECT_LT(bytes_max, (4u << 20) + 100);
}

}  // namespace
}  // namespace longwave
