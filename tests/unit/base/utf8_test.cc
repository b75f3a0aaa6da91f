#include "common/base/utf8.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "common/base/print.h"

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

TEST(FindControlCharacter, KnowsThoseBeyondAscii) {
  for (const char* control : {"\x1b", "\xc2\x9b", "\xc2\x80", "\xd8\x9c", "\xe2\x80\x8f",
                              "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9"})
    EXPECT_EQ(FindControlCharacter(std::string("aé") + control, ""), 3u) << Printable(control);
  // Their neighbours.
  for (const char* text : {" ", "~", "\xc2\xa0", "\xd8\x9b", "\xe2\x80\x8d", "\xe2\x80\xa7",
                           "\xe2\x80\xaf", "\xe2\x81\xa5", "\xe2\x81\xaa", "█"})
    EXPECT_EQ(FindControlCharacter(text, ""), kNone) << text;
}

TEST(Printable, EscapesWhatATerminalObeysAndNothingElse) {
  const std::string plain = "größer, \"a\\b\", █ 漢字";
  EXPECT_EQ(Printable(plain), plain);
  EXPECT_EQ(Printable("a\nb\r\t\x1b[2J\x7f"), "a\\nb\\r\\t\\x1b[2J\\x7f");
  EXPECT_EQ(Printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J\xe2\x80\xaetxt"),
            "\\xc2\\x9b2J\\xe2\\x80\\xaetxt");
  EXPECT_EQ(Printable("a\xff\xc3é"), "a\\xff\\xc3é");
  EXPECT_EQ(Printable(Printable("\x1b\xff")), Printable("\x1b\xff"));
}

TEST(Printable, LeavesNoControlWhateverTheBytes) {
  // All texts of up to two bytes, and three-byte ones that begin as characters do.
  std::string text;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      text = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(a ^ b)};
      for (const std::string& one : {text.substr(0, 1), text.substr(0, 2), text}) {
        const std::string printable = Printable(one);
        ASSERT_EQ(FindControlCharacter(printable, ""), kNone) << a << " " << b;
        ASSERT_EQ(FindInvalidUtf8(printable), kNone) << a << " " << b;
      }
    }
  }
}

TEST(PrintLine, WritesOneLineWhateverStandsInIt) {
  ::testing::internal::CaptureStdout();
  PrintLine(stdout, "a\nerror: forged \x1b[31m");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "a\\nerror: forged \\x1b[31m\n");
}

TEST(Quotable, IsOneShortLineOfUtf8) {
  EXPECT_EQ(Quotable("naïve"), "naïve");
  EXPECT_EQ(Quotable("a\nb"), "a\\nb");
  EXPECT_EQ(Quotable("a\xff"), "a\\xff");
  EXPECT_EQ(Quotable("\x1b[2Jé"), "\\x1b[2Jé");
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
