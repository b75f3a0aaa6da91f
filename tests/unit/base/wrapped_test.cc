#include "common/base/wrapped.h"

#include <gtest/gtest.h>

#include <string>

namespace longwave {
namespace {

TEST(Wrapped, LinesHaveAtMost120Bytes) {
  const std::string ten = "123456789 ";
  std::string text;
  for (int i = 0; i < 13; ++i) text += ten;
  EXPECT_EQ(Wrapped(text, "  "), text.substr(0, 119) + "\n  123456789");
}

TEST(Wrapped, NoLineBeginsAList) {
  const std::string long_word(119, 'x');
  EXPECT_EQ(Wrapped(long_word + " + s", ""), long_word + " +\ns");
  EXPECT_EQ(Wrapped(long_word + " 1. All", ""), long_word + " 1.\nAll");
}

TEST(Wrapped, OfNothingIsNothing) { EXPECT_EQ(Wrapped("", "  "), ""); }

}  // namespace
}  // namespace longwave
