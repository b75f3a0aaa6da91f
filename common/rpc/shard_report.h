#ifndef LONGWAVE_COMMON_RPC_SHARD_REPORT_H_
#define LONGWAVE_COMMON_RPC_SHARD_REPORT_H_

#include <cstdint>
#include <vector>

#include "common/wire/control.h"

namespace longwave {

// What a shard tells those who ask it; proto/longwave/v1/shard.proto.
struct SegmentReport {
  uint32_t segment = 0;
  uint32_t open_round = 0;
  std::vector<uint32_t> waiting_for;  // workers that have not pushed to the open round
  uint64_t open_bytes = 0;
};

struct ShardReport {
  uint32_t shard = 0;
  ShardState state;
  std::vector<SegmentReport> segments;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_SHARD_REPORT_H_
