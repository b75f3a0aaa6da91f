#include "common/wire/codec.h"

#include "absl/strings/str_cat.h"

namespace longwave {

std::string_view Name(ValueCodec codec) {
  switch (codec) {
    case ValueCodec::kFp32:
      return "fp32";
    case ValueCodec::kBf16:
      return "bf16";
    case ValueCodec::kInt8:
      return "int8";
    case ValueCodec::kInt4:
      return "int4";
    case ValueCodec::kInt2:
      return "int2";
    case ValueCodec::kSign:
      return "sign";
  }
  return "unknown";
}

std::string_view Name(Selection selection) {
  switch (selection) {
    case Selection::kAll:
      return "all";
    case Selection::kTopK:
      return "topk";
    case Selection::kRandom:
      return "random";
    case Selection::kStride:
      return "stride";
  }
  return "unknown";
}

std::string_view Name(Transform transform) {
  switch (transform) {
    case Transform::kNone:
      return "none";
    case Transform::kDct:
      return "dct";
  }
  return "unknown";
}

std::string Describe(const PayloadFormat& format) {
  std::string text(Name(format.selection));
  if (format.selection != Selection::kAll) absl::StrAppend(&text, " ", format.k);
  text += " in ";
  text += Name(format.codec);
  return text;
}

}  // namespace longwave
