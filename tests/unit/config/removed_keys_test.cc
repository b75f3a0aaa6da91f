#include "common/config/removed_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "common/config/config.h"
#include "common/config/config_keys.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

TEST(RemovedKeys, SayWhatToUseInstead) {
  for (const char* const key :
       {"model.file", "model.channels", "model.image_size", "model.classes", "model.patch",
        "data.crop", "data.flip", "train.ranks", "train.collectives"}) {
    EXPECT_THAT(std::string(InsteadOfRemovedKey(key)), HasSubstr("docs/how-to/python.md")) << key;
    EXPECT_EQ(FindConfigKey(key), nullptr) << key;
  }
}

TEST(RemovedKeys, AreNoOthers) {
  for (const ConfigKey& key : ConfigKeys()) EXPECT_EQ(InsteadOfRemovedKey(key.name), "");
  EXPECT_EQ(InsteadOfRemovedKey("model.pitch"), "");
  EXPECT_EQ(InsteadOfRemovedKey(""), "");
}

TEST(RemovedValues, SayWhatToUseInsteadAndAreRefused) {
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"model.kind", "resnet"},
                                   {"model.kind", "vit"},
                                   {"model.kind", "file"},
                                   {"data.kind", "images"}}) {
    EXPECT_THAT(std::string(InsteadOfRemovedValue(key, value)), HasSubstr("docs/how-to/python.md"));
    RunConfig config = DefaultConfig();
    EXPECT_FALSE(FindConfigKey(key)->set(config, value)) << key << " " << value;
  }
  EXPECT_EQ(InsteadOfRemovedValue("model.kind", "gpt"), "");
  EXPECT_EQ(InsteadOfRemovedValue("data.kind", "resnet"), "");
}

}  // namespace
}  // namespace longwave
