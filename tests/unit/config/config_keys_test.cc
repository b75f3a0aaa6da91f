#include "common/config/config_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/config/config.h"
#include "common/config/key_types.h"

namespace longwave {
namespace {

TEST(ConfigKeys, EveryDefaultIsInRange) {
  for (const ConfigKey& key : ConfigKeys()) {
    RunConfig config;
    EXPECT_TRUE(key.set(config, key.default_value)) << key.name << " = " << key.default_value;
    EXPECT_EQ(key.get(config), key.default_value) << key.name;
  }
}

TEST(ConfigKeys, NamesAreUniqueAndDocumented) {
  std::set<std::string> names;
  for (const ConfigKey& key : ConfigKeys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_THAT(key.meaning, testing::EndsWith(".")) << key.name;
    EXPECT_FALSE(key.wanted.empty()) << key.name;
    EXPECT_EQ(FindConfigKey(key.name), &key);
    EXPECT_FALSE(IsConfigSection(key.name)) << key.name;
  }
}

TEST(ConfigKeys, EachReachesAMemberOfItsOwn) {
  const RunConfig defaults = DefaultConfig();
  for (const ConfigKey& key : ConfigKeys()) {
    RunConfig changed = defaults;
    bool differs = false;
    for (const char* value :
         {"1",    "2",    "64",       "32",       "0.01",   "true",   "x",        "h:1", "cuda",
          "ddp",  "on",   "gradient", "external", "dct",    "none",   "tensor",   "all", "fp32",
          "sign", "bf16", "member",   "adamw",    "tokens", "uint32", "gpt2-124m"}) {
      if (key.set(changed, value) && key.get(changed) != key.default_value) {
        differs = true;
        break;
      }
    }
    EXPECT_TRUE(differs) << key.name;
    for (const ConfigKey& other : ConfigKeys()) {
      if (&other == &key) continue;
      EXPECT_EQ(other.get(changed), other.get(defaults)) << key.name << " changes " << other.name;
    }
  }
}

TEST(ConfigKeys, ARefusedValueChangesNothing) {
  RunConfig config = DefaultConfig();
  for (const ConfigKey& key : ConfigKeys()) EXPECT_FALSE(key.set(config, "\x01")) << key.name;
  EXPECT_EQ(config, DefaultConfig());
}

TEST(NearestConfigKey, FindsSlipsOfThePen) {
  EXPECT_EQ(NearestConfigKey("sync.kk"), "sync.up.k");
  EXPECT_EQ(NearestConfigKey("sync.down.kk"), "sync.down.k");
  EXPECT_EQ(NearestConfigKey("steps"), "run.steps");
  EXPECT_EQ(NearestConfigKey("model.d_modle"), "model.d_model");
  EXPECT_EQ(NearestConfigKey("trian"), "train");
}

TEST(NearestConfigKey, KnowsWhatIsShortOrCalledMoreElsewhere) {
  EXPECT_EQ(NearestConfigKey("train.lr"), "train.learning_rate");
  EXPECT_EQ(NearestConfigKey("lr"), "train.learning_rate");
  EXPECT_EQ(NearestConfigKey("train.wd"), "train.weight_decay");
  EXPECT_EQ(NearestConfigKey("sync.wd"), "sync.weight_decay");
  EXPECT_EQ(NearestConfigKey("train.warmup"), "train.warmup_steps");
  EXPECT_EQ(NearestConfigKey("train.batch_size"), "train.batch");
}

TEST(NearestConfigKey, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(NearestConfigKey("zzz"), "");
  EXPECT_EQ(NearestConfigKey("sync.h"), "");
  EXPECT_EQ(NearestConfigKey(""), "");
  EXPECT_EQ(NearestConfigKey("run."), "");
  EXPECT_EQ(NearestConfigKey(std::string(100000, 'a')), "");
}

TEST(FormatNumber, IsTheShortestThatReadsBack) {
  EXPECT_EQ(FormatNumber(0.003), "0.003");
  EXPECT_EQ(FormatNumber(1e-8), "1e-08");
  EXPECT_EQ(FormatNumber(0.1 + 0.2), "0.30000000000000004");
}

TEST(IsHostPort, TakesNamesAndAddressesOfBothKinds) {
  for (const char* good : {"127.0.0.1:7070", "node-1.example.org:0", "[::1]:65535"}) {
    EXPECT_TRUE(IsHostPort(good)) << good;
  }
  for (const char* bad : {"", ":7070", "::1:7070", "host:", "host:65536", "host:-1", "a b:1",
                          "[]:1", "[::1:1", "tcp://h:1", "host:7e3", "host:7.0"}) {
    EXPECT_FALSE(IsHostPort(bad)) << bad;
  }
}

}  // namespace
}  // namespace longwave
