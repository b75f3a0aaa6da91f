#ifndef LONGWAVE_WORKER_ABI_ABI_STRUCT_H_
#define LONGWAVE_WORKER_ABI_ABI_STRUCT_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {

// Structs of the C interface begin with their size in the caller's version. An older caller's
// struct is shorter, and its missing members are zero here.

// Limit of a newer caller's struct. A size that a caller has not set may be any number.
inline constexpr size_t kStructBytesMax = 4096;

template <typename T>
absl::Status CheckStruct(const T* given, const char* what) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, size) == 0);
  if (given == nullptr) return InvalidArgument(what, ": got NULL");
  if (given->size >= sizeof(size_t) && given->size <= kStructBytesMax) return absl::OkStatus();
  return InvalidArgument(what, ": got size ", given->size, ", wanted sizeof of it");
}

// InvalidArgument: null, an impossible size, or a newer caller's struct with nonzero members that
// this library does not know.
template <typename T>
absl::StatusOr<T> ReadStruct(const T* given, const char* what) {
  LONGWAVE_RETURN_IF_ERROR(CheckStruct(given, what));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (given->size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + given->size, [](unsigned char b) { return b != 0; })) {
    return InvalidArgument(what, ": got size ", given->size, ", this library knows ", sizeof(T),
                           " bytes: the program is newer than its liblongwave.so");
  }
  T read{};
  std::memcpy(&read, given, std::min(given->size, sizeof(T)));
  return read;
}

// Writes as much as the caller's struct holds, and zeros to the rest of a newer caller's. The
// struct's size is unchanged.
template <typename T>
absl::Status WriteStruct(T value, T* to, const char* what) {
  LONGWAVE_RETURN_IF_ERROR(CheckStruct(to, what));
  value.size = to->size;
  auto* const bytes = reinterpret_cast<unsigned char*>(to);
  std::memcpy(bytes, &value, std::min(value.size, sizeof(T)));
  if (value.size > sizeof(T)) std::memset(bytes + sizeof(T), 0, value.size - sizeof(T));
  return absl::OkStatus();
}

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_ABI_STRUCT_H_
