#include "tests/intruder/mutation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kLineBytesMax = 16 << 10;

// Sets one value: the field itself, or the element `index` of a repeated one (−1: a new one at its
// end).
void SetValue(Message* message, const FieldDescriptor* field, int index, Rng& rng,
              const Beliefs& beliefs) {
  const Reflection* const reflection = message->GetReflection();
  const bool is_new = field->is_repeated() && index < 0;
  const auto set = [&](auto once, auto at, auto added, const auto& value) {
    if (is_new) return (reflection->*added)(message, field, value);
    if (field->is_repeated()) return (reflection->*at)(message, field, index, value);
    (reflection->*once)(message, field, value);
  };
  using R = Reflection;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return set(&R::SetUInt32, &R::SetRepeatedUInt32, &R::AddUInt32, Odd32(rng, beliefs));
    case FieldDescriptor::CPPTYPE_INT32:
      return set(&R::SetInt32, &R::SetRepeatedInt32, &R::AddInt32,
                 static_cast<int32_t>(Odd32(rng, beliefs)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return set(&R::SetUInt64, &R::SetRepeatedUInt64, &R::AddUInt64, Odd64(rng, beliefs));
    case FieldDescriptor::CPPTYPE_INT64:
      return set(&R::SetInt64, &R::SetRepeatedInt64, &R::AddInt64,
                 static_cast<int64_t>(Odd64(rng, beliefs)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set(&R::SetDouble, &R::SetRepeatedDouble, &R::AddDouble, OddDouble(rng));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return set(&R::SetFloat, &R::SetRepeatedFloat, &R::AddFloat,
                 static_cast<float>(OddDouble(rng)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(&R::SetBool, &R::SetRepeatedBool, &R::AddBool, OneIn(rng, 2));
    case FieldDescriptor::CPPTYPE_ENUM:
      return set(
          &R::SetEnumValue, &R::SetRepeatedEnumValue, &R::AddEnumValue,
          OneIn(rng, 4) ? static_cast<int>(Odd32(rng, beliefs)) : static_cast<int>(rng.Below(12)));
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = OddText(rng);
      if (is_new) return reflection->AddString(message, field, text);
      if (field->is_repeated()) return reflection->SetRepeatedString(message, field, index, text);
      return reflection->SetString(message, field, text);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Message* const inner = is_new ? reflection->AddMessage(message, field)
                             : field->is_repeated()
                                 ? reflection->MutableRepeatedMessage(message, field, index)
                                 : reflection->MutableMessage(message, field);
      return Mutate(inner, rng, beliefs);
    }
  }
}

}  // namespace

uint32_t Odd32(Rng& rng, const Beliefs& beliefs) {
  static const std::vector<uint32_t> kEdges = {0, 1, 2, 3, 0x7fffffff, 0x80000000, ~1u, ~0u};
  // The last two go back by two and by one.
  static const std::vector<uint32_t> kApart = {0, 1, 2, 16, 1000, ~1u, ~0u};
  if (OneIn(rng, 10)) return static_cast<uint32_t>(OneIn(rng, 2) ? rng.Next() : rng.Below(6));
  if (OneIn(rng, 3)) return OneOf(rng, kEdges);
  const std::vector<uint32_t> near = {beliefs.worker, beliefs.epoch, beliefs.round, beliefs.round};
  return OneOf(rng, near) + OneOf(rng, kApart);
}

uint64_t Odd64(Rng& rng, const Beliefs& beliefs) {
  constexpr uint64_t kOne = 1;
  static const std::vector<uint64_t> kEdges = {
      0, 1, 100, kOne << 32, kOne << 40, kOne << 63, ~uint64_t{0} >> 1, ~uint64_t{0}};
  if (OneIn(rng, 10)) return rng.Next();
  if (!OneIn(rng, 3)) return OneOf(rng, kEdges) + rng.Below(2);
  const std::vector<uint64_t> known = {beliefs.incarnation, beliefs.run, beliefs.round};
  return OneOf(rng, known);
}

double OddDouble(Rng& rng) {
  using Limits = std::numeric_limits<double>;
  constexpr double kInfinity = Limits::infinity(), kNan = Limits::quiet_NaN();
  static const std::vector<double> kEdges = {
      0.0,       -0.0,       -1.0,  3.0,           1e-300,
      1e30,      3e38,       1e300, Limits::max(), Limits::denorm_min(),
      kInfinity, -kInfinity, kNan};
  return OneIn(rng, 14) ? rng.Uniform() : OneOf(rng, kEdges);
}

std::string OddText(Rng& rng) {
  const std::string forged(kForged);
  const std::vector<std::string> choices = {
      "",
      forged,
      "\n" + forged + " line",
      "a line\n2026-01-01 00:00:00.000 coordinator info " + forged,
      "\n" + forged + "\n" + forged,
      "\r" + forged,
      "\x1b[2J\x1b[31m" + forged + "\x1b]0;" + forged + "\a",
      "\xc2\x9b"
      "31m" +
          forged,               // CSI as one character of C1
      "\xc2\x85" + forged,      // NEL
      "\xe2\x80\xa8" + forged,  // line separator
      "\xe2\x80\xae" + forged,  // turns the direction of writing
      "\b\b\b\b\x7f\v\f" + forged,
      std::string("a\0b", 3) + forged,
      "\"} 1\n" + forged + "{x=\"",  // a page of metrics
      "error: " + forged,
      "run.steps: 1\n" + forged + ": 2\n",
      "{}%s%n%x{0}\\n" + forged,
      "../../../tmp/" + forged,
      "\xf0\x9f\x92\xa9" + forged,
      std::string(100'000, 'x') + forged,
      std::string(50'000, '\n') + forged};
  return OneOf(rng, choices);
}

void Mutate(Message* message, Rng& rng, const Beliefs& beliefs) {
  const auto* const descriptor = message->GetDescriptor();
  if (descriptor->field_count() == 0) return;
  const FieldDescriptor* const field = descriptor->field(
      static_cast<int>(rng.Below(static_cast<uint64_t>(descriptor->field_count()))));
  const Reflection* const reflection = message->GetReflection();
  if (OneIn(rng, 8)) return reflection->ClearField(message, field);
  if (!field->is_repeated()) return SetValue(message, field, -1, rng, beliefs);
  const int size = reflection->FieldSize(*message, field);
  if (size > 0 && OneIn(rng, 4)) return reflection->RemoveLast(message, field);
  if (size > 0 && !OneIn(rng, 3)) {
    const auto index = static_cast<int>(rng.Below(static_cast<uint64_t>(size)));
    return SetValue(message, field, index, rng, beliefs);
  }
  const uint64_t added = OneIn(rng, 20) ? 3000 : 1 + rng.Below(4);
  for (uint64_t i = 0; i < added; ++i) SetValue(message, field, -1, rng, beliefs);
}

void Damage(std::string* bytes, Rng& rng) {
  if (OneIn(rng, 4)) bytes->append(rng.Below(64), static_cast<char>(rng.Next()));
  if (bytes->empty()) return;
  if (OneIn(rng, 4)) return bytes->resize(rng.Below(bytes->size()));
  for (uint64_t i = 1 + rng.Below(4); i > 0; --i) {
    (*bytes)[rng.Below(bytes->size())] ^= static_cast<char>(1 << rng.Below(8));
  }
}

std::string FindRaw(std::string_view text) {
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    const auto found = [&](absl::string_view what) {
      return absl::StrCat(what, " in \"", Quotable(std::string_view(line.data(), line.size())),
                          "\"");
    };
    const std::string_view plain(line.data(), line.size());
    if (plain.size() > kLineBytesMax) return found(absl::StrCat(plain.size(), " bytes"));
    if (FindInvalidUtf8(plain) != std::string_view::npos) return found("no UTF-8");
    if (FindControlCharacter(plain, "") != std::string_view::npos)
      return found("a control character");
    for (size_t i = 0; i + 1 < plain.size(); ++i) {
      const auto byte = [&](size_t at) {
        return at < plain.size() ? static_cast<uint8_t>(plain[at]) : 0;
      };
      const bool is_c1 = byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) <= 0x9f;
      const bool turns =
          byte(i) == 0xe2 && ((byte(i + 1) == 0x80 && byte(i + 2) >= 0xa8 && byte(i + 2) <= 0xae) ||
                              (byte(i + 1) == 0x81 && byte(i + 2) >= 0xa6 && byte(i + 2) <= 0xa9));
      if (is_c1 || turns) return found("a control character of Unicode");
    }
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(line),
                         absl::string_view(kForged.data(), kForged.size())))
      return found("a forged line");
  }
  return "";
}

}  // namespace longwave
