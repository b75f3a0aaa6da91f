#include "common/config/yaml_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longwave {
namespace {

using Kind = YamlEntry::Kind;

// "line kind key=value" of each entry.
std::vector<std::string> Entries(std::string_view text) {
  const auto entries = ReadYaml(text, "t.yaml");
  EXPECT_TRUE(entries.ok()) << entries.status();
  std::vector<std::string> lines;
  if (!entries.ok()) return lines;
  for (const YamlEntry& entry : *entries) {
    const char* const kinds[] = {"scalar", "nothing", "section", "list"};
    lines.push_back(std::to_string(entry.line) + " " + kinds[static_cast<int>(entry.kind)] + " " +
                    entry.key + "=" + entry.value);
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(ReadYaml, FlattensSectionsInOrder) {
  EXPECT_EQ(Entries("a:\n  b: 1\n  c:\n    d: 'x y'\ne.f: 2\n"),
            (Lines{"1 section a=", "2 scalar a.b=1", "3 section a.c=", "4 scalar a.c.d=x y",
                   "5 scalar e.f=2"}));
}

TEST(ReadYaml, LeavesTheItemsOfListsOut) {
  EXPECT_EQ(Entries("a: [1, {b: [2]}, ~]\nc: 3\n"), (Lines{"1 list a=", "2 scalar c=3"}));
}

TEST(ReadYaml, TellsNothingFromEmptyText) {
  EXPECT_EQ(
      Entries("a:\nb: ~\nc: null\nd: ''\ne: \"null\"\n"),
      (Lines{"1 nothing a=", "2 nothing b=", "3 nothing c=", "4 scalar d=", "5 scalar e=null"}));
}

TEST(ReadYaml, TakesAByteOrderMarkAndCarriageReturns) {
  EXPECT_EQ(Entries("\xef\xbb\xbfrun:\r\n  steps: 5\r\n"),
            (Lines{"1 section run=", "2 scalar run.steps=5"}));
}

TEST(ReadYaml, TakesOneExplicitDocument) {
  EXPECT_EQ(Entries("%YAML 1.2\n---\na: 1\n...\n"), (Lines{"3 scalar a=1"}));
}

}  // namespace
}  // namespace longwave
