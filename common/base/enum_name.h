#ifndef LONGWAVE_COMMON_BASE_ENUM_NAME_H_
#define LONGWAVE_COMMON_BASE_ENUM_NAME_H_

#include <cstddef>
#include <string_view>

namespace longwave {

// The name of an enum's value. names: of all values in their order, `first` and those after it
// without a gap. "unknown" for any other number.
template <typename Enum, size_t kCount>
constexpr std::string_view EnumName(Enum value, const std::string_view (&names)[kCount],
                                    Enum first = Enum{}) {
  const size_t index = static_cast<size_t>(value) - static_cast<size_t>(first);
  return index < kCount ? names[index] : "unknown";
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_ENUM_NAME_H_
