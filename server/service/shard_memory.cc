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

}  // namespace

uint32_t ShardsHere(const RunConfig& config) {
  const std::string& host = config.cluster.shard_host;
  const bool loopback =
      absl::StartsWith(host, "127.") || host == "::1" || host == "[::1]" || host == "localhost";
  return loopback ? std::max(1u, config.run.shards) : 1;
}

uint64_t OpenBytesMax(const RunConfig& config, const MachineMemory& machine) {
  if (config.cluster.shard_memory_mb > 0) return config.cluster.shard_memory_mb * kBytesPerMegabyte;
  // 0 would be no limit.
  return std::max<uint64_t>(
      1, static_cast<uint64_t>(machine.available_bytes / 2) / ShardsHere(config));
}

uint64_t BytesForShard(const RunConfig& config, const MachineMemory& machine) {
  return static_cast<uint64_t>(
      std::min(machine.available_bytes, machine.total_bytes / ShardsHere(config)));
}

LinkOptions QueuesWithin(uint64_t open_bytes_max, const RunConfig& config) {
  const auto frames = [&](const PayloadFormat& format, uint64_t connections, int min, int max) {
    const std::vector<uint32_t> tiles(config.sync.segment_tiles, kTileSizeMax);
    const absl::StatusOr<PayloadLayout> form = PayloadLayout::Create(format, tiles);
    // Too large for any frame: the aggregator will say so.
    if (!form.ok()) return min;
    const uint64_t fit = open_bytes_max / 4 / (form->bytes() * connections);
    return static_cast<int>(std::clamp<uint64_t>(fit, min, max));
  };
  const uint64_t connections = uint64_t{config.run.workers} * config.cluster.connections;
  return {.receive_queue_frames = frames(config.sync.up, connections, 2, kReceiveQueueFramesMax),
          .send_queue_frames = frames(config.sync.down, 1, 64, kSendQueueFramesMax)};
}

}  // namespace longwave
