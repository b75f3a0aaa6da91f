#ifndef LONGWAVE_SERVER_STORE_LOG_RECORD_H_
#define LONGWAVE_SERVER_STORE_LOG_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "server/shard/shard_records.h"

namespace longwave {

// The records of a shard's delta log, and kDecisions, the record of a coordinator's log.
// proto/LOG.md has the bytes; this file and that page change together.
enum class LogKind : uint8_t {
  kPush = 1,
  kMerged = 2,
  kMembership = 3,
  kNote = 4,
  kDecisions = 5,
  kRestored = 6,
};
std::string_view Name(LogKind kind);  // "push", "merged", and so on

LogKind KindOf(const LogRecord& record);

inline constexpr uint32_t kLogContributorsMax = 1u << 20;
inline constexpr uint32_t kLogMembersMax = 1u << 20;
inline constexpr uint32_t kLogNameBytesMax = 4096;  // of a member
inline constexpr uint32_t kLogNoteBytesMax = 4096;
// No record's body is larger, but for kDecisions: the largest payload, and room for what stands in
// front of it.
inline constexpr uint32_t kLogBodyBytesMax = 2 * kPayloadBytesMax;

// A record's body in two parts, so that a payload is not copied to be written.
struct LogBody {
  std::vector<std::byte> front;
  Buffer payload;      // empty for all but push and merged
  uint32_t crc = 0;    // CRC32C of both, one after the other
  uint32_t bytes = 0;  // of both
};

// InvalidArgument, so that nothing gets into a log that could not be read back: a frame of another
// kind, a payload that is not its header's (length, CRC), contributors that do not ascend, are not
// header.contributions or have a factor out of 0 … 1, a limit above exceeded, text that is not
// UTF-8.
absl::StatusOr<LogBody> EncodeLogBody(const LogRecord& record);

// The inverse. The record's payload stays where it is, in `body`, which `owner` keeps alive.
// InvalidArgument or DataLoss: what EncodeLogBody would not have written.
absl::StatusOr<LogRecord> DecodeLogBody(LogKind kind, std::span<const std::byte> body,
                                        const std::shared_ptr<const void>& owner);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_LOG_RECORD_H_
