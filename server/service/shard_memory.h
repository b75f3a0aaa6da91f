#ifndef LONGWAVE_SERVER_SERVICE_SHARD_MEMORY_H_
#define LONGWAVE_SERVER_SERVICE_SHARD_MEMORY_H_

#include <cstdint>

#include "common/base/memory.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/link/link.h"

namespace longwave {

// A shard's share of its machine's memory, from configuration and machine.

// How many of the run's shards run on this machine: all if cluster.shard_host is a loopback
// address, else one.
uint32_t ShardsHere(const RunConfig& config);

// Bytes of pushes that open rounds may hold: cluster.shard_memory_mb, or else this shard's part of
// a third of the available memory, read before any shard has allocated. With the queues that makes
// half of the memory; the other half is for the model.
uint64_t OpenBytesMax(const RunConfig& config, const MachineMemory& machine);

// Limit of the whole shard's memory, read when other shards may have allocated theirs: the memory
// available now, but at most this shard's part of the total.
uint64_t BytesForShard(const RunConfig& config, const MachineMemory& machine);

// The sizes of the socket's queues. Received and outgoing frames get a quarter of open_bytes_max
// each, in frames of the configured formats, over all connections of WorkersMax members of one
// device each. The minimum that keeps traffic going is two frames a connection in and 64 frames a
// worker out.
LinkOptions QueuesWithin(uint64_t open_bytes_max, const RunConfig& config);

// Bytes that such queues may hold for this model, in frames of the shard's largest segment in the
// configured formats. Outgoing frames share one buffer over all workers, and count once.
uint64_t QueueBytes(const LinkOptions& queues, const RunConfig& config, const Layout& layout,
                    uint32_t shard);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_MEMORY_H_
