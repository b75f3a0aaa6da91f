#include "server/service/shard_memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "common/wire/payload.h"

namespace longwave {
namespace {

constexpr uint64_t kBytesPerMegabyte = 1'000'000;

// 0: larger than any frame, which the aggregator reports.
uint64_t BytesOf(const PayloadFormat& format, const std::vector<uint32_t>& tile_sizes) {
  const absl::StatusOr<PayloadLayout> form = PayloadLayout::Create(format, tile_sizes);
  return form.ok() ? form->bytes() : 0;
}

uint64_t ConnectionsMax(const RunConfig& config) {
  return uint64_t{WorkersMax(config)} * config.cluster.connections;
}

}  // namespace

uint32_t ShardsHere(const RunConfig& config) {
  const std::string& host = config.cluster.shard_host;
  const bool loopback =
      absl::StartsWith(host, "127.") || host == "::1" || host == "[::1]" || host == "localhost";
  return loopback ? std::max(1u, config.run.shards) : 1;
}

uint64_t OpenBytesMax(const RunConfig& config, const MachineMemory& machine) {
  if (config.cluster.shard_memory_mb > 0) return config.cluster.shard_memory_mb * kBytesPerMegabyte;
  // 0 would mean no limit.
  return std::max<uint64_t>(
      1, static_cast<uint64_t>(machine.available_bytes / 3) / ShardsHere(config));
}

uint64_t BytesForShard(const RunConfig& config, const MachineMemory& machine) {
  return static_cast<uint64_t>(
      std::min(machine.available_bytes, machine.total_bytes / ShardsHere(config)));
}

LinkOptions QueuesWithin(uint64_t open_bytes_max, const RunConfig& config) {
  const std::vector<uint32_t> tiles(config.sync.segment_tiles, kTileSizeMax);
  const auto frames = [&](const PayloadFormat& format, uint64_t connections, int min, int max) {
    const uint64_t bytes = BytesOf(format, tiles);
    if (bytes == 0) return min;
    const uint64_t fit = open_bytes_max / 4 / (bytes * connections);
    return static_cast<int>(std::clamp<uint64_t>(fit, min, max));
  };
  return {.receive_queue_frames =
              frames(config.sync.up, ConnectionsMax(config), 2, kReceiveQueueFramesMax),
          .send_queue_frames = frames(config.sync.down, 1, 64, kSendQueueFramesMax)};
}

uint64_t QueueBytes(const LinkOptions& queues, const RunConfig& config, const Layout& layout,
                    uint32_t shard) {
  uint64_t up_bytes = 0;
  uint64_t down_bytes = 0;
  for (uint32_t s = 0; s < layout.segments().size(); ++s) {
    if (layout.segments()[s].shard != shard) continue;
    const std::vector<uint32_t> tiles = layout.TileSizes(s);
    up_bytes = std::max(up_bytes, BytesOf(config.sync.up, tiles));
    down_bytes = std::max(down_bytes, BytesOf(config.sync.down, tiles));
  }
  return static_cast<uint64_t>(queues.receive_queue_frames) * ConnectionsMax(config) * up_bytes +
         static_cast<uint64_t>(queues.send_queue_frames) * down_bytes;
}

}  // namespace longwave
