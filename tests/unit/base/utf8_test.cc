#include "common/base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace longwave {
namespace {

constexpr size_t kNone = std::string_view::npos;

TEST(FindInvalidUtf8, AcceptsTheEdgesOfEveryLength) {
  for (const char* text :
       {"", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(FindInvalidUtf8(text), kNone) << text;
  }
}

TEST(FindInvalidUtf8, NamesTheFirstBadByte) {
  // Stray, overlong, surrogate, too large, cut off.
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
                          "\xc2", "\xe2\x82", "\xf0\x9f\x98", "\xc2z", "\xe2\x82z"}) {
    EXPECT_EQ(FindInvalidUtf8(std::string("aé") + bad), 3u) << bad;
  }
}

TEST(FindControlCharacter, TakesThoseThatAreAllowed) {
  EXPECT_EQ(FindControlCharacter("a\tb\n", "\t\n"), kNone);
  EXPECT_EQ(FindControlCharacter("a\tb\n", "\t"), 3u);
  EXPECT_EQ(FindControlCharacter("ab\x7f", ""), 2u);
}

TEST(Quotable, IsOneShortLineOfUtf8) {
  EXPECT_EQ(Quotable("naïve"), "naïve");
  EXPECT_EQ(Quotable("a\nb"), "a\\nb");
  EXPECT_EQ(Quotable("a\xff"), "a\\xff");
  EXPECT_EQ(Quotable(std::string(81, 'a')), std::string(80, 'a') + "…");
  EXPECT_EQ(Quotable(std::string(79, 'a') + "éé"), std::string(79, 'a') + "…");
}

TEST(Utf8Prefix, KeepsWholeCharactersAndSaysWhereItCut) {
  EXPECT_EQ(Utf8Prefix("größer", 100), "größer");
  EXPECT_EQ(Utf8Prefix("größer", 8), "größer");  // of just 8 bytes
  EXPECT_EQ(Utf8Prefix("größer", 7), "grö…");
  EXPECT_EQ(Utf8Prefix("größer", 6), "gr…");  // no half of an ö
  EXPECT_EQ(Utf8Prefix("größer", 3), "…");
  EXPECT_EQ(Utf8Prefix("", 3), "");
}

TEST(Utf8Prefix, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(Utf8Prefix("a\xff\xc3z", 100), "a??z");
  EXPECT_EQ(FindInvalidUtf8(Utf8Prefix(std::string(50, '\x80'), 9)), std::string_view::npos);
}

}  // namespace
}  // namespace longwave
