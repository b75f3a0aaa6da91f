#ifndef LONGWAVE_TESTS_SUPPORT_PRECOMPILED_H_
#define LONGWAVE_TESTS_SUPPORT_PRECOMPILED_H_

// For the compiler alone (tests/CMakeLists.txt): a test includes what it uses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#endif  // LONGWAVE_TESTS_SUPPORT_PRECOMPILED_H_
