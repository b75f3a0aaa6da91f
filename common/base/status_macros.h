#ifndef LONGWAVE_COMMON_BASE_STATUS_MACROS_H_
#define LONGWAVE_COMMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the calling function if `expr` is an error.
#define LONGWAVE_RETURN_IF_ERROR(expr)                                           \
  do {                                                                           \
    if (::absl::Status lw_status_ = (expr); !lw_status_.ok()) return lw_status_; \
  } while (false)

#define LONGWAVE_CONCAT_INNER_(a, b) a##b
#define LONGWAVE_CONCAT_(a, b) LONGWAVE_CONCAT_INNER_(a, b)

// LONGWAVE_ASSIGN_OR_RETURN(auto x, Function()): x is the value, or the error is returned.
#define LONGWAVE_ASSIGN_OR_RETURN(lhs, expr) \
  LONGWAVE_ASSIGN_OR_RETURN_(LONGWAVE_CONCAT_(lw_or_, __LINE__), lhs, expr)
#define LONGWAVE_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return std::move(tmp).status();   \
  lhs = *std::move(tmp)

#endif  // LONGWAVE_COMMON_BASE_STATUS_MACROS_H_
