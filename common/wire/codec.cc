#include "common/wire/codec.h"

#include "absl/strings/str_cat.h"
#include "common/base/enum_name.h"

namespace longwave {

std::string_view Name(ValueCodec codec) {
  return EnumName(codec, {"fp32", "bf16", "int8", "int4", "int2", "sign"});
}

std::string_view Name(Selection selection) {
  return EnumName(selection, {"all", "topk", "random", "stride"});
}

std::string_view Name(Transform transform) { return EnumName(transform, {"none", "dct"}); }

std::string Describe(const PayloadFormat& format) {
  std::string text(Name(format.selection));
  if (format.selection != Selection::kAll) absl::StrAppend(&text, " ", format.k);
  text += " in ";
  text += Name(format.codec);
  return text;
}

}  // namespace longwave
