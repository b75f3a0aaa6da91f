#include "server/service/disk_figures.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "tests/support/store_helpers.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

TEST(DiskFigures, CountWhatIsWrittenAndSynced) {
  Metrics metrics(MetricPart::kShard);
  DiskFigures figures(metrics);
  const auto files = MakePosixFileSystem(figures.watch());
  const TestFolder folder;
  auto file = files->Create(folder.path() + "/f");
  ASSERT_TRUE(file.ok());
  const std::array<std::byte, 100> bytes{};
  ASSERT_TRUE(AppendBytes(**file, bytes).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(metrics.counter("longwave_shard_disk_written_bytes_total").value(), 100);
  EXPECT_EQ(metrics.histogram("longwave_shard_sync_seconds").Read().counts.back(), 1u);
  EXPECT_EQ(metrics.counter("longwave_shard_disk_failures_total").value(), 0);
  EXPECT_FALSE(files->Create(folder.path() + "/f").ok());  // an existing file is no disk failure
  EXPECT_EQ(metrics.counter("longwave_shard_disk_failures_total").value(), 0);
}

}  // namespace
}  // namespace longwave
