#ifndef LONGWAVE_SERVER_SERVICE_SHARD_MEMORY_H_
#define LONGWAVE_SERVER_SERVICE_SHARD_MEMORY_H_

#include <cstdint>

#include "common/base/memory.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/link/link.h"

namespace longwave {

// What a shard may take of its machine's memory, as far as configuration and machine tell.

// How many of the run's shards share this machine: all of them when cluster.shard_host is a
// loopback address, else this one.
uint32_t ShardsHere(const RunConfig& config);

// Bytes of pushes that open rounds may keep: cluster.shard_memory_mb, or else this shard's part of
// a third of what is available, which is read before any shard has taken its own: with the queues
// half of it, and the other half for what the model wants.
uint64_t OpenBytesMax(const RunConfig& config, const MachineMemory& machine);

// What all that the shard holds has to fit in, asked when others may have taken theirs already:
// what is available now, but no more than this shard's part of all there is.
uint64_t BytesForShard(const RunConfig& config, const MachineMemory& machine);

// The socket's queues: a quarter of open_bytes_max each for what has come but was not received,
// over all connections of as many members as there may be (WorkersMax), and for what goes out, in
// frames of the configured formats; but at least two frames a connection in and 64 a worker out,
// with which nothing stands still.
LinkOptions QueuesWithin(uint64_t open_bytes_max, const RunConfig& config);

// What such queues may hold of this model, in bytes, in frames of the shard's largest segment in
// the configured formats. What goes out is counted once, not for each worker: one buffer goes to
// all of them.
uint64_t QueueBytes(const LinkOptions& queues, const RunConfig& config, const Layout& layout,
                    uint32_t shard);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_MEMORY_H_
