#ifndef LONGWAVE_TESTS_EMULATION_SANITIZER_H_
#define LONGWAVE_TESTS_EMULATION_SANITIZER_H_

#include <cstddef>

// With the address sanitizer, memory between objects is poisoned manually. Otherwise it is filled
// with a pattern that is checked later.
#if defined(__SANITIZE_ADDRESS__)
#define LONGWAVE_EMULATION_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LONGWAVE_EMULATION_ASAN 1
#endif
#endif
#ifdef LONGWAVE_EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace longwave::emulation {

#ifdef LONGWAVE_EMULATION_ASAN
inline constexpr bool kAddressSanitizer = true;
inline void Poison(const void* begin, size_t bytes) { ASAN_POISON_MEMORY_REGION(begin, bytes); }
inline void Unpoison(const void* begin, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(begin, bytes); }
#else
inline constexpr bool kAddressSanitizer = false;
inline void Poison(const void*, size_t) {}
inline void Unpoison(const void*, size_t) {}
#endif

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_SANITIZER_H_
