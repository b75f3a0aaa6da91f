#include "common/config/removed_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/config/config.h"
#include "common/config/config_keys.h"

namespace longwave {
namespace {

constexpr const char* kRemoved[] = {"train.ranks", "train.collectives"};

TEST(RemovedKeys, AreAnsweredWithWhatToUseInstead) {
  for (const std::string key : kRemoved) {
    const std::string instead(InsteadOfRemovedKey(key));
    EXPECT_THAT(instead, testing::StartsWith(key + " was removed"));
    const size_t dot = key.find('.');
    const std::string text = key.substr(0, dot) + ":\n  " + key.substr(dot + 1) + ": 2\n";
    EXPECT_EQ(ParseConfig(text, "x.yaml").status().message(), "x.yaml:2: " + instead);
    EXPECT_EQ(ParseConfig("{}", "x.yaml", {key + "=2"}).status().message(),
              "--set " + key + "=2: " + instead);
  }
}

TEST(RemovedKeys, AreNoKeysAndNoKeyIsRemoved) {
  for (const char* key : kRemoved) EXPECT_EQ(FindConfigKey(key), nullptr) << key;
  for (const ConfigKey& key : ConfigKeys())
    EXPECT_EQ(InsteadOfRemovedKey(key.name), "") << key.name;
  EXPECT_EQ(InsteadOfRemovedKey("train.rank"), "");
}

}  // namespace
}  // namespace longwave
