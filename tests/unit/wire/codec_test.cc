#include "common/wire/codec.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

TEST(CodecNames, AreThoseOfTheConfiguration) {
  EXPECT_EQ(Name(ValueCodec::kFp32), "fp32");
  EXPECT_EQ(Name(ValueCodec::kBf16), "bf16");
  EXPECT_EQ(Name(ValueCodec::kInt8), "int8");
  EXPECT_EQ(Name(ValueCodec::kInt4), "int4");
  EXPECT_EQ(Name(ValueCodec::kInt2), "int2");
  EXPECT_EQ(Name(ValueCodec::kSign), "sign");
  EXPECT_EQ(Name(Selection::kAll), "all");
  EXPECT_EQ(Name(Selection::kTopK), "topk");
  EXPECT_EQ(Name(Selection::kRandom), "random");
  EXPECT_EQ(Name(Selection::kStride), "stride");
  EXPECT_EQ(Name(Transform::kNone), "none");
  EXPECT_EQ(Name(Transform::kDct), "dct");
}

}  // namespace
}  // namespace longwave
