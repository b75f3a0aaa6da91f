#include "cli/join/join.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/new_file.h"
#include "common/config/config.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"
#include "common/security/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JoinFolder : public ::testing::Test {
 protected:
  void Certify(const std::string& name, absl::Time from, absl::Duration life) {
    const auto authority = Authority::Make("test", absl::Now() - absl::Hours(48));
    ASSERT_TRUE(authority.ok());
    const auto made =
        MakeCredentials(**authority, {WorkerIdentity(name)}, {}, {.from = from, .life = life});
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_TRUE(WriteCredentials(folder_.security_folder(), *made).ok());
    authority_ = (*authority)->certificate();
  }
  static std::string TokenOf(const std::string& authority) {
    return FormatToken({.id = std::string(Token::kIdChars, 'a'),
                        .secret = std::string(Token::kSecretChars, 'b'),
                        .authority = TokenFingerprint(*ReadCertificate(authority))});
  }
  std::string Refusal(const JoinOptions& options) const {
    const auto joined = RedeemOrResume(options, folder_);
    return joined.ok() ? "joined" : std::string(joined.status().message());
  }

  const TestFolder temporary_;
  const JoinedFolder folder_{temporary_.path() + "/joined"};
  std::string authority_;  // of the credentials
};

TEST_F(JoinFolder, KeepsWhoJoinedWhomForItsOwnerAlone) {
  EXPECT_EQ(folder_.Load().value(), std::nullopt);
  const Joined joined{.coordinator = "c:7070", .name = "a b"};
  ASSERT_TRUE(folder_.Save(joined, FormatConfig(DefaultConfig())).ok());
  EXPECT_EQ(folder_.Load().value(), joined);
  EXPECT_TRUE(LoadConfig(folder_.config_file()).ok());
  struct stat info {};
  ASSERT_EQ(stat(folder_.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(JoinFolder, AJoinJsonThatIsNoneIsRefused) {
  ASSERT_TRUE(MakeSecretFolder(folder_.path()).ok());
  for (const char* const text :
       {"", "{", "[]", "{\"coordinator\": 3, \"name\": \"a\"}", "{\"coordinator\": \"c:1\"}"}) {
    ASSERT_TRUE(WriteFile(folder_.path() + "/join.json", text, kPublicFile).ok());
    EXPECT_THAT(std::string(folder_.Load().status().message()), HasSubstr("join again")) << text;
  }
}

TEST_F(JoinFolder, NamesAFileWithoutAToken) {
  const std::string file = folder_.path() + ".token";
  ASSERT_TRUE(WriteFile(file, " \n", kPublicFile).ok());
  EXPECT_EQ(
      Refusal({.address = "c:7070", .token_file = file}),
      "--token-file: got no token in " + file + ", wanted what `longwave token create` printed");
  std::filesystem::remove(file);
}

TEST_F(JoinFolder, ResumesWithGoodCredentialsAndNoToken) {
  ASSERT_TRUE(folder_.Save({"c:7070", "a"}, "").ok());
  Certify("a", absl::Now() - absl::Hours(1), absl::Hours(2));
  // The coordinator may have another address by now.
  const auto joined = RedeemOrResume({.address = "d:7070"}, folder_);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(*joined, (Joined{"d:7070", "a"}));
}

TEST_F(JoinFolder, ExpiredCredentialsWantANewToken) {
  ASSERT_TRUE(folder_.Save({"c:7070", "a"}, "").ok());
  Certify("a", absl::Now() - absl::Hours(3), absl::Hours(2));
  EXPECT_THAT(Refusal({.address = "c:7070"}), HasSubstr("wanted a new --token T for a"));
}

TEST_F(JoinFolder, AnotherWorkersFolderIsNotTaken) {
  ASSERT_TRUE(folder_.Save({"c:7070", "a"}, "").ok());
  Certify("a", absl::Now() - absl::Hours(1), absl::Hours(2));
  EXPECT_THAT(Refusal({.address = "c:7070", .name = "b"}), HasSubstr("is the folder of a"));
}

TEST_F(JoinFolder, AnotherRunsFolderIsNotTakenWithATokenOfThisOne) {
  ASSERT_TRUE(folder_.Save({"c:7070", "a"}, "").ok());
  const std::string strange =
      TokenOf((*Authority::Make("another run's", absl::Now()))->certificate());
  for (const absl::Duration age : {absl::Hours(1), absl::Hours(3)}) {  // good, and expired
    Certify("a", absl::Now() - age, absl::Hours(2));
    const auto joined = RedeemOrResume({.address = "127.0.0.1:1", .token = strange}, folder_);
    EXPECT_EQ(joined.status().code(), absl::StatusCode::kFailedPrecondition) << joined.status();
    EXPECT_THAT(std::string(joined.status().message()), HasSubstr("the folder of another run"));
  }
  Certify("a", absl::Now() - absl::Hours(1), absl::Hours(2));
  EXPECT_TRUE(RedeemOrResume({.address = "c:7070", .token = TokenOf(authority_)}, folder_).ok())
      << "one of the same run is not needed, and does no harm";
  // While one authority replaces another.
  ASSERT_TRUE(WriteFile(folder_.security_folder() + "/ca.crt",
                        authority_ + (*Authority::Make("new", absl::Now()))->certificate(),
                        kPublicFile)
                  .ok());
  EXPECT_TRUE(RedeemOrResume({.address = "c:7070", .token = TokenOf(authority_)}, folder_).ok());
}

TEST_F(JoinFolder, WithoutTokenAndFolderSaysWhatIsWanted) {
  EXPECT_THAT(Refusal({.address = "c:7070"}), HasSubstr("longwave token create"));
  EXPECT_THAT(Refusal({.address = "c:7070", .token = "t", .token_file = "f"}),
              HasSubstr("wanted one of them"));
  EXPECT_THAT(Refusal({.address = "c:7070", .token_file = "/nowhere"}), HasSubstr("/nowhere"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(JoinFolder, ATokenThatIsNoneIsRefusedBeforeAnybodyIsAsked) {
  const std::string refusal = Refusal({.address = "127.0.0.1:1", .token = "secret-secret"});
  EXPECT_THAT(refusal, HasSubstr("token"));
  EXPECT_THAT(refusal, ::testing::Not(HasSubstr("secret-secret")));
}

TEST(WorkerCommand, NamesTheFoldersPartsAndInsistsOnSecurity) {
  const JoinedFolder folder("/d");
  JoinOptions options{.data = "/books", .threads = 3, .overrides = {"metrics.listen=0.0.0.0:9464"}};
  EXPECT_THAT(
      WorkerCommand(options, {"c:7070", "a"}, folder, "/bin"),
      ElementsAre("/bin/longwave-worker", "--config", "/d/config.yaml", "--coordinator", "c:7070",
                  "--name", "a", "--state-dir", "/d/worker", "--run-dir", "/d", "--set",
                  "security.mode=on", "--set", "security.folder=/d/security", "--set",
                  "data.path=/books", "--set", "metrics.listen=0.0.0.0:9464", "--threads", "3"));
}

TEST(WorkerCommand, OverridesAreSettingsThatAConfigurationTakes) {
  const JoinOptions options{.device = "cpu", .data = "/books"};
  const auto config = ParseConfig(FormatConfig(DefaultConfig()), "config.yaml",
                                  WorkerOverrides(options, JoinedFolder("/d")));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->security.mode, "on");
  EXPECT_EQ(config->security.folder, "/d/security");
  EXPECT_EQ(config->train.device, "cpu");
  EXPECT_EQ(config->data.path, "/books");
}

TEST(JoinedFolderDefault, IsTheServicesOwnOrOneForEachCoordinator) {
  setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b", 1);
  EXPECT_EQ(JoinedFolder::Default("c:7070").path(), "/var/lib/a");
  unsetenv("STATE_DIRECTORY");
  EXPECT_THAT(JoinedFolder::Default("[::1]:7070").path(), ::testing::EndsWith("/---1--7070"));
}

}  // namespace
}  // namespace longwave
