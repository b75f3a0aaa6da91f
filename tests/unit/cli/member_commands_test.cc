#include "cli/security/member_commands.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

#include "cli/commands.h"

namespace longwave {
namespace {

const Target kTarget = {.address = "hub:7070", .security = "my keys"};

TEST(DescribeExpulsion, SaysWhatBecameOfTheTokens) {
  EXPECT_EQ(DescribeExpulsion(kTarget, "w", false, {}), "expelled w");
  EXPECT_EQ(DescribeExpulsion(kTarget, "w", false,
                              {.revoked = {{.id = "one", .uses = 8, .used = 1},
                                           {.id = "two", .uses = 2, .used = 1}},
                               .also_joined = {}}),
            "expelled w; token one, with 7 uses left, is revoked; token two, with 1 use left, is "
            "revoked");
  EXPECT_EQ(DescribeExpulsion(kTarget, "w", true, {}), "w may join again, with a new token");
}

TEST(DescribeExpulsion, NamesWhoElseJoinedWithItsTokensAndHowToExpelThem) {
  EXPECT_EQ(DescribeExpulsion(kTarget, "w", false,
                              {.revoked = {{.id = "one", .uses = 4, .used = 3}},
                               .also_joined = {"b", "it's b", "-b", "~"}}),
            "expelled w; token one, with 1 use left, is revoked\n"
            "other workers joined with the same tokens; they may be the same machine under other "
            "names, and still take part. To expel them too:\n"
            "  longwave expel hub:7070 --security 'my keys' -- b\n"
            "  longwave expel hub:7070 --security 'my keys' -- 'it'\\''s b'\n"
            "  longwave expel hub:7070 --security 'my keys' -- -b\n"
            "  longwave expel hub:7070 --security 'my keys' -- '~'");
}

// Parses the command that the sentence proposes.
TEST(DescribeExpulsion, ANameThatBeginsAsAnOptionDoesIsOneBehindTwoDashes) {
  CLI::App app;
  Commands commands;
  AddSecurityCommands(&app, &commands);
  app.parse("expel hub:7070 --security keys -- -b");
  EXPECT_EQ(app.get_subcommand("expel")->get_option("worker")->as<std::string>(), "-b");
}

}  // namespace
}  // namespace longwave
