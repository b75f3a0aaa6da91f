#ifndef LONGWAVE_COMMON_WIRE_SHARD_REPORT_H_
#define LONGWAVE_COMMON_WIRE_SHARD_REPORT_H_

#include <cstdint>
#include <vector>

#include "common/base/fields.h"
#include "common/wire/control.h"
#include "common/wire/traffic.h"

namespace longwave {

// A shard's status; proto/longwave/v1/shard.proto.
struct SegmentReport {
  uint32_t segment = 0;
  uint32_t open_round = 0;
  std::vector<uint32_t> waiting_for;  // workers that have not pushed to the open round
  uint64_t open_bytes = 0;
  LONGWAVE_FIELDS(segment, open_round, waiting_for, open_bytes)
};

struct WorkerLinkReport {
  uint32_t worker = 0;
  uint32_t connections = 0;       // on which the shard has heard it
  uint64_t bytes_per_second = 0;  // the limit of what it is sent; 0: none
  uint64_t frames_waiting = 0;    // merged updates that its rate holds back
  uint64_t bytes_waiting = 0;
  LinkTraffic traffic;
  LONGWAVE_FIELDS(worker, connections, bytes_per_second, frames_waiting, bytes_waiting, traffic)
  bool operator==(const WorkerLinkReport&) const = default;
};

struct ShardReport {
  uint32_t shard = 0;
  ShardState state;
  std::vector<SegmentReport> segments;
  LinkTraffic traffic;                    // with all peers, strangers and former members included
  std::vector<WorkerLinkReport> workers;  // members
  std::vector<RefusalCount> refusals;     // of its control port and its data port
  bool secured = false;
  LONGWAVE_FIELDS(shard, state, segments, traffic, workers, refusals, secured)
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_SHARD_REPORT_H_
