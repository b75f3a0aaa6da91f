// Valid inputs of the store's fuzz targets.

#include <array>
#include <filesystem>
#include <string>

#include "server/store/snapshot_content.h"
#include "server/store/snapshot_format.h"
#include "tests/fuzz/seeds.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

// A log of the records, a sync after each or one at the end; cut short by `torn` bytes.
std::vector<std::byte> LogOf(std::span<const LogRecord> records, bool sync_each, size_t torn) {
  SimFileSystem files(1);
  LogOnDisk disk(&files, 1 << 20);
  LONGWAVE_CHECK(disk.Open().ok());
  for (const LogRecord& record : records) {
    LONGWAVE_CHECK(disk.log().Append(record).ok());
    if (sync_each) LONGWAVE_CHECK(disk.log().Sync().ok());
  }
  LONGWAVE_CHECK(disk.log().Sync().ok());
  const Buffer file = ReadWhole(files, "disk/log/00000001.lwlog", 1 << 20).value();
  const auto kept = file.bytes().first(file.size() - torn);
  return {kept.begin(), kept.end()};
}

bool WriteLogs(const std::filesystem::path& folder) {
  std::vector<LogRecord> all;
  for (uint32_t i = 0; i < 6; ++i) all.push_back(TestRecord(i));
  bool good = WriteSeed(folder / "seed-empty", LogOf({}, false, 0));
  for (const LogRecord& record : std::span(all).first(4)) {
    good &= WriteSeed(folder / ("seed-" + std::string(Name(KindOf(record)))),
                      LogOf(std::span(&record, 1), false, 0));
  }
  good &= WriteSeed(folder / "seed-group", LogOf(all, false, 0));
  good &= WriteSeed(folder / "seed-synced", LogOf(all, true, 0));
  good &= WriteSeed(folder / "seed-torn", LogOf(all, false, 13));
  return good;
}

bool WriteSnapshot(const std::filesystem::path& file, SnapshotKind kind, uint32_t segments,
                   const Buffer& content, Compression compression) {
  SnapshotHeader header;
  header.identity = TestIdentity();
  header.key = {kind, 0, segments, kind == SnapshotKind::kStart ? 0u : 3u};
  const Buffer stored = PackSnapshotContent(content, compression, header).value();
  const auto head = EncodeSnapshotHeader(header);
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), stored.bytes().begin(), stored.bytes().end());
  return WriteSeed(file, bytes);
}

bool WriteSnapshots(const std::filesystem::path& folder) {
  const std::vector<float> first(40, 0.5f), second = {1, 2, 3};
  const std::vector<std::span<const float>> model = {first, second};
  std::vector<SegmentSnapshot> state(2);
  const MergedRecord merged = TestMerged(3, 0, 21);
  state[0] = {4, first, ClosedSegment{merged.header, {{1, 77}, {4, 78}}, merged.payload}};
  state[0].newest = {{1, 3}, {2, 1}, {4, 3}};
  state[1].residual = second;
  const Buffer model_content = EncodeModelContent(model);
  const Buffer state_content = EncodeStateContent(state).value();
  constexpr auto kModel = SnapshotKind::kModel;
  constexpr auto kState = SnapshotKind::kState;
  const Buffer start_content = EncodeModelContent(std::span(model).first(1));
  return WriteSnapshot(folder / "seed-start", SnapshotKind::kStart, 1, start_content,
                       Compression::kNone) &&
         WriteSnapshot(folder / "seed-model", kModel, 2, model_content, Compression::kNone) &&
         WriteSnapshot(folder / "seed-model-zstd", kModel, 2, model_content, Compression::kZstd) &&
         WriteSnapshot(folder / "seed-state", kState, 2, state_content, Compression::kNone) &&
         WriteSnapshot(folder / "seed-state-zstd", kState, 2, state_content, Compression::kZstd);
}

}  // namespace

bool WriteStoreSeeds(const std::filesystem::path& corpora) {
  return WriteLogs(corpora / "log_file_fuzz") && WriteSnapshots(corpora / "snapshot_fuzz");
}

}  // namespace longwave
