#ifndef LONGWAVE_SERVER_SERVICE_SHARD_MEMORY_H_
#define LONGWAVE_SERVER_SERVICE_SHARD_MEMORY_H_

#include <cstdint>

#include "common/base/memory.h"
#include "common/config/run_config.h"
#include "common/link/link.h"

namespace longwave {

// What a shard may take of its machine's memory, as far as configuration and machine tell.

// How many of the run's shards share this machine: all of them when cluster.shard_host is a
// loopback address, else this one.
uint32_t ShardsHere(const RunConfig& config);

// Bytes of pushes that open rounds may keep: cluster.shard_memory_mb, or else this shard's part of
// half of what is available, which is read before any shard has taken its own.
uint64_t OpenBytesMax(const RunConfig& config, const MachineMemory& machine);

// What the shard's residual, tables and pushes have to fit in, asked when others may have taken
// theirs already: what is available now, but no more than this shard's part of all there is.
uint64_t BytesForShard(const RunConfig& config, const MachineMemory& machine);

// The socket's queues: a quarter of open_bytes_max each for what has come but was not received,
// over all connections, and for what goes out, in frames of the configured formats; but at least
// two frames in and 64 out, with which nothing stands still.
LinkOptions QueuesWithin(uint64_t open_bytes_max, const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_MEMORY_H_
