#include "common/layout/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace longwave {
namespace {

using testing::HasSubstr;

std::string Refusal(const Manifest& manifest) {
  const absl::Status status = Validate(manifest);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ManifestValidate, AcceptsScalarsVectorsAndMatrices) {
  EXPECT_TRUE(Validate({{{"a", {}}, {"b", {7}}, {"c", {3, 4}}, {"d", {2, 3, 4, 5}}}}).ok());
}

TEST(ManifestValidate, RejectsNoTensorsAndTooMany) {
  EXPECT_THAT(Refusal({}), HasSubstr("no tensors"));
  Manifest many;
  for (size_t i = 0; i <= kManifestTensorsMax; ++i)
    many.tensors.push_back({std::to_string(i), {1}});
  EXPECT_THAT(Refusal(many), HasSubstr("got 65537 tensors, wanted at most 65536"));
}

TEST(ManifestValidate, RejectsNamesThatAreEmptyOrGivenTwice) {
  EXPECT_THAT(Refusal({{{"a", {1}}, {"", {1}}}}), HasSubstr("tensor 1: got an empty name"));
  EXPECT_THAT(Refusal({{{"a\xff", {1}}}}), HasSubstr("got the name a\\xff, wanted UTF-8"));
  EXPECT_THAT(Refusal({{{"a", {1}}, {"b", {1}}, {"a", {2}}}}),
              HasSubstr("tensor 2: got the name a a second time"));
}

TEST(ManifestValidate, RejectsDimensionsBelowOne) {
  EXPECT_THAT(Refusal({{{"a", {3, 0}}}}), HasSubstr("got a [3, 0], wanted dimensions"));
  EXPECT_THAT(Refusal({{{"a", {-4}}}}), HasSubstr("got a [-4]"));
}

TEST(ManifestValidate, RejectsTooManyParametersWithoutOverflowing) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_TRUE(Validate({{{"a", {huge}}}}).ok());
  EXPECT_THAT(Refusal({{{"a", {huge, 2}}}}), HasSubstr("wanted at most 1099511627776"));
  EXPECT_THAT(Refusal({{{"a", {huge}}, {"b", {1}}}}), HasSubstr("got 1099511627777 parameters"));
  EXPECT_THAT(Refusal({{{"a", {INT64_MAX, INT64_MAX, INT64_MAX}}}}), HasSubstr("wanted at most"));
}

TEST(ManifestHash, TellsNamesShapesAndOrderApart) {
  const std::set<uint64_t> hashes = {
      HashOf({{{"a", {2, 3}}, {"b", {4}}}}),   HashOf({{{"b", {4}}, {"a", {2, 3}}}}),
      HashOf({{{"a", {3, 2}}, {"b", {4}}}}),   HashOf({{{"a", {6}}, {"b", {4}}}}),
      HashOf({{{"ab", {2, 3}}, {"", {4}}}}),   HashOf({{{"a", {2, 3}}}}),
      HashOf({{{"a", {2, 3, 1}}, {"b", {4}}}})};
  EXPECT_EQ(hashes.size(), 7u);
  EXPECT_EQ(HashOf({{{"a", {2, 3}}}}), HashOf({{{"a", {2, 3}}}}));
}

TEST(ManifestCounts, MultiplyAndAdd) {
  EXPECT_EQ(ElementCount({"a", {}}), 1);
  EXPECT_EQ(ElementCount({"a", {2, 3, 4}}), 24);
  EXPECT_EQ(ParameterCount({{{"a", {2, 3}}, {"b", {}}, {"c", {5}}}}), 12);
}

TEST(FirstDifference, NamesTheFirstTensorThatDiffers) {
  const Manifest wanted = {{{"a", {1}}, {"w", {96, 384}}}};
  EXPECT_EQ(FirstDifference(wanted, wanted), "");
  EXPECT_EQ(FirstDifference({{{"a", {1}}, {"w", {96, 288}}}}, wanted),
            "tensor 1: got w [96, 288], wanted w [96, 384]");
  EXPECT_EQ(FirstDifference({{{"a", {1}}}}, wanted), "tensor 1: got none, wanted w [96, 384]");
  EXPECT_EQ(FirstDifference({{{"a", {1}}, {"w", {96, 384}}, {"x", {}}}}, wanted),
            "tensor 2: got x [], wanted none");
}

}  // namespace
}  // namespace longwave
