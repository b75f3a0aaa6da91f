#include "cli/security/certificate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

class CertificateCommand : public testing::Test {
 protected:
  // The refusal, which leaves no file behind.
  std::string Refusal() const {
    const absl::Status status = MakeCertificate(options_);
    EXPECT_FALSE(std::filesystem::exists(options_.folder));
    return std::string(status.message());
  }

  const TestFolder folder_;
  CertificateMakeOptions options_ = {.folder = folder_.path() + "/made", .roles = {"shard/0"}};
};

TEST_F(CertificateCommand, NamesAllHosts) {
  options_.names = {"a.example", "*.b.example", "2001:db8::1", "10.0.0.1"};
  options_.addresses = {"192.168.0.1", "::1"};
  ASSERT_TRUE(MakeCertificate(options_).ok());
  const auto lines = ShowCertificate(options_.folder);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ(lines->at(0), "names      shard 0");
  for (const char* const host : {"a.example", "*.b.example", "10.0.0.1", "192.168.0.1"})
    EXPECT_THAT(lines->at(1), HasSubstr(host));
}

TEST_F(CertificateCommand, RefusesWhatNoHostIsReachedBy) {
  for (const char* const name : {"", "a b", "https://a", "a:7070", "[::1]", "*"}) {
    options_.names = {name};
    EXPECT_THAT(Refusal(), HasSubstr("--dns: got ")) << name;
  }
  options_.names = {};
  for (const char* const address : {"", "1.2.3", "localhost", "10.0.0.1/8", "[::1]"}) {
    options_.addresses = {address};
    EXPECT_THAT(Refusal(), HasSubstr("wanted an IPv4 or IPv6 address")) << address;
  }
}

TEST_F(CertificateCommand, RefusesALifeThatNoProcessWouldSee) {
  for (const char* const life : {"", "x", "-1h", "0", "1ns", "999ms", "1000000h"}) {
    options_.life = life;
    EXPECT_THAT(Refusal(), HasSubstr("--life: got ")) << life;
  }
}

TEST_F(CertificateCommand, NamesAFaultyRoleOnce) {
  options_.roles = {"shard/x"};
  EXPECT_THAT(Refusal(), HasSubstr("shard/x"));
  EXPECT_EQ(Refusal().find("role"), Refusal().rfind("role"));
}

}  // namespace
}  // namespace longwave
