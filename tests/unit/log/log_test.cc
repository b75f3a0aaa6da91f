#include "common/log/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

std::string Logged(std::string_view text) {
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kWarning, text);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, IsOneLineWhateverAnotherProcessSaid) {
  const std::string line = Logged(
      "worker-1: no\n2026-01-01 00:00:00.000 coordinator info forged\r\x1b[2J\xc2\x9b"
      "2J\xff");
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  EXPECT_EQ(FindControlCharacter(line, "\n"), std::string::npos) << line;
  EXPECT_EQ(FindInvalidUtf8(line), std::string::npos);
  EXPECT_TRUE(
      line.ends_with(" warning worker-1: no\\n2026-01-01 00:00:00.000 coordinator info "
                     "forged\\r\\x1b[2J\\xc2\\x9b2J\\xff\n"))
      << line;
}

// Logs of machines in several zones go together.
TEST(Log, HasItsTimeInUtcWhateverTheZoneIs) {
  setenv("TZ", "Asia/Kolkata", 1);
  tzset();
  const std::string line = Logged("text");
  unsetenv("TZ");
  tzset();
  absl::Time time;
  std::string why;
  ASSERT_TRUE(
      absl::ParseTime("%Y-%m-%d %H:%M:%E*S%Ez", line.substr(0, line.find(" warning")), &time, &why))
      << line << why;
  EXPECT_EQ(line[23], 'Z') << line;
  EXPECT_LT(absl::AbsDuration(absl::Now() - time), absl::Minutes(1)) << line;
}

TEST(Log, KeepsWhatIsPlain) {
  EXPECT_TRUE(Logged("größer {} %v █").ends_with(" größer {} %v █\n"));
}

TEST(Log, CutsALineThatIsTooLong) {
  const std::string whole(kLogBytesMax, 'a');
  EXPECT_NE(Logged(whole).find(" " + whole + "\n"), std::string::npos);
  for (const std::string& more : {whole + "b", std::string(1 << 20, '\x1b')}) {
    const std::string line = Logged(more);
    EXPECT_LT(line.size(), kLogBytesMax + 100);
    EXPECT_TRUE(line.ends_with("…\n"));
  }
}

TEST(Log, EscapesTheProcesssName) {
  SetLogProcess("w\n%v\x1b[0m");
  EXPECT_NE(Logged("text").find(" w\\n%v\\x1b[0m warning text\n"), std::string::npos);
}

}  // namespace
}  // namespace longwave
