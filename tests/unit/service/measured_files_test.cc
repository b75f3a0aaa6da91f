#include "server/service/measured_files.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "tests/support/sim_file_system.h"
#include "tests/support/store_helpers.h"

namespace longwave {
namespace {

TEST(MeasuredFiles, CountWhatIsWrittenAndSynced) {
  Metrics metrics(MetricPart::kShard);
  DiskFigures figures(metrics);
  const auto files = MeasureFiles(std::make_unique<SimFileSystem>(1), &figures);
  ASSERT_TRUE(files->CreateFolder("/d").ok());
  auto file = files->Create("/d/f");
  ASSERT_TRUE(file.ok());
  const std::array<std::byte, 100> bytes{};
  ASSERT_TRUE(AppendBytes(**file, bytes).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(metrics.counter("longwave_shard_disk_written_bytes_total").value(), 100);
  EXPECT_EQ(metrics.histogram("longwave_shard_sync_seconds").Read().counts.back(), 1u);
  EXPECT_EQ(metrics.counter("longwave_shard_disk_failures_total").value(), 0);
  EXPECT_FALSE(files->Create("/d/f").ok());  // the file exists, which is no failure of the disk
  EXPECT_EQ(metrics.counter("longwave_shard_disk_failures_total").value(), 0);
}

}  // namespace
}  // namespace longwave
