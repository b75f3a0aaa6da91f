#ifndef LONGWAVE_TESTS_UNIT_STORE_STORE_TESTING_H_
#define LONGWAVE_TESTS_UNIT_STORE_STORE_TESTING_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/wire/crc32c.h"
#include "server/store/catalog.h"
#include "server/store/delta_log.h"
#include "server/store/log_record.h"
#include "tests/support/sim_file_system.h"

namespace longwave {

inline StoreIdentity TestIdentity() { return {0x0123456789abcdef, 3, 0xfeedfacecafebeef}; }

inline std::vector<std::byte> TestBytes(size_t count, uint32_t seed) {
  std::vector<std::byte> bytes(count);
  Rng rng(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.Next() >> 56);
  return bytes;
}

template <typename Frame>
Frame TestFrame(uint32_t round, uint32_t segment, std::span<const std::byte> payload) {
  return {.run = TestIdentity().run,
          .epoch = 1,
          .round = round,
          .segment = segment,
          .weight = 61440,
          .norm = 0.5f,
          .payload_bytes = static_cast<uint32_t>(payload.size()),
          .payload_crc = Crc32c(payload)};
}
inline PushFrame TestPushFrame(uint32_t round, uint32_t worker, uint32_t segment,
                               std::span<const std::byte> payload) {
  auto header = TestFrame<PushFrame>(round, segment, payload);
  header.worker = worker;
  return header;
}

inline PushRecord TestPush(uint32_t round, uint32_t worker, uint32_t segment, size_t bytes) {
  std::vector<std::byte> payload = TestBytes(bytes, 1000 * round + 10 * worker + segment);
  const PushFrame header = TestPushFrame(round, worker, segment, payload);
  return {header, Buffer(std::move(payload))};
}

inline MergedRecord TestMerged(uint32_t round, uint32_t segment, size_t bytes) {
  std::vector<std::byte> payload = TestBytes(bytes, 7777 * round + segment);
  MergedRecord record;
  record.header = TestFrame<MergedFrame>(round, segment, payload);
  record.header.contributions = 2;
  record.contributors = {{1, 40960, 1}, {4, 20480, 0.5}};
  record.residual_hash = 0x1122334455667788 + round;
  record.payload = Buffer(std::move(payload));
  return record;
}

inline MembershipRecord TestMembership(uint32_t epoch) {
  MembershipRecord record;
  record.membership.epoch = epoch;
  record.membership.members = {{1, "anna", 0}, {4, "bert", epoch}};
  return record;
}

// Records of all kinds in turn, distinguished by their numbers.
inline LogRecord TestRecord(uint32_t number) {
  switch (number % 5) {
    case 0:
      return TestPush(number, 1, 2, 5 + number % 90);
    case 1:
      return TestMerged(number, 2, 3 + number % 70);
    case 2:
      return NoteRecord{number, "round"};
    case 3:
      return RestoredRecord{number, number + 1, number + 2};
    default:
      return TestMembership(number);
  }
}

// A record as the bytes that EncodeLogBody gives it, with its kind in front: for comparing.
inline std::vector<std::byte> BytesOf(const LogRecord& record) {
  const auto body = EncodeLogBody(record);
  LONGWAVE_CHECK(body.ok());
  const auto payload = body->payload.bytes();
  std::vector<std::byte> bytes(1 + body->front.size() + payload.size());
  bytes[0] = static_cast<std::byte>(KindOf(record));
  std::ranges::copy(payload, std::ranges::copy(body->front, bytes.begin() + 1).out);
  return bytes;
}

// A log on a simulated disk, opened and lost as processes come and go.
class LogOnDisk {
 public:
  explicit LogOnDisk(SimFileSystem* files, uint64_t file_bytes_max = 1024)
      : files_(files), file_bytes_max_(file_bytes_max) {}

  absl::Status Open() {
    Close();
    if (absl::Status status = files_->CreateFolder("disk"); !status.ok()) return status;
    auto catalog = Catalog::Open(files_, "disk", TestIdentity(), "");
    if (!catalog.ok()) return catalog.status();
    catalog_ = *std::move(catalog);
    return OpenLog();
  }
  // Reopens as after a failure: the same process, the same catalog.
  absl::Status OpenLog() {
    log_.reset();
    DeltaLogOptions options;
    options.file_bytes_max = file_bytes_max_;
    options.salt = 0xa5a5a5a5;
    auto log = DeltaLog::Open(files_, "disk/log", TestIdentity(), options, catalog_.get());
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    return absl::OkStatus();
  }
  void Close() {
    log_.reset();
    catalog_.reset();
  }

  DeltaLog& log() { return *log_; }
  bool is_open() const { return log_ != nullptr; }

  // The log's records from the first one on. Checks that they are in order without a gap.
  absl::StatusOr<std::vector<std::vector<std::byte>>> Records() {
    std::vector<std::vector<std::byte>> records;
    uint64_t next = log_->recovery().first_sequence;
    const absl::Status status = log_->Replay(0, [&](uint64_t sequence, const LogRecord& record) {
      if (sequence != next++) return absl::InternalError("sequence numbers with a gap");
      records.push_back(BytesOf(record));
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return records;
  }

 private:
  SimFileSystem* files_;
  uint64_t file_bytes_max_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<DeltaLog> log_;
};

// Appends TestRecord(first …) in groups of one to three and syncs each group. Returns how many
// records' sync returned; ends at the first error, which goes to `status`.
inline uint32_t AppendGroups(DeltaLog& log, uint32_t first, uint32_t count, absl::Status* status) {
  uint32_t synced = 0;
  for (uint32_t next = 0; next < count;) {
    const uint32_t group = std::min(count - next, 1 + next % 3);
    for (uint32_t i = 0; i < group; ++i) {
      const auto sequence = log.Append(TestRecord(first + next + i));
      if (!sequence.ok()) {
        *status = sequence.status();
        return synced;
      }
    }
    if (*status = log.Sync(); !status->ok()) return synced;
    next += group;
    synced = next;
  }
  *status = absl::OkStatus();
  return synced;
}

// Records 0 … of the test's sequence, as bytes.
inline std::vector<std::vector<std::byte>> ExpectedRecords(uint32_t count) {
  std::vector<std::vector<std::byte>> records;
  for (uint32_t i = 0; i < count; ++i) records.push_back(BytesOf(TestRecord(i)));
  return records;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_STORE_STORE_TESTING_H_
