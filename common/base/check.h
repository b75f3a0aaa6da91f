#ifndef LONGWAVE_COMMON_BASE_CHECK_H_
#define LONGWAVE_COMMON_BASE_CHECK_H_

namespace longwave {

// Writes the failed condition with its place to standard error and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace longwave

// For conditions that no input can break; kept in release builds. Input errors are an absl::Status.
#define LONGWAVE_CHECK(condition)                                              \
  do {                                                                         \
    if (!(condition)) ::longwave::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)

#endif  // LONGWAVE_COMMON_BASE_CHECK_H_
