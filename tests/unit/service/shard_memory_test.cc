#include "server/service/shard_memory.h"

#include <gtest/gtest.h>

#include "common/config/config.h"

namespace longwave {
namespace {

constexpr MachineMemory kMachine = {.available_bytes = 18e9, .total_bytes = 20e9};

RunConfig ConfigOf(uint32_t shards, const char* host) {
  RunConfig config;
  config.run.shards = shards;
  config.run.workers = 4;
  config.cluster.connections = 1;
  config.cluster.shard_host = host;
  config.sync.segment_tiles = 256;
  config.sync.up = {Selection::kTopK, ValueCodec::kSign, 64};
  config.sync.down = {Selection::kTopK, ValueCodec::kInt2, 256};
  return config;
}

TEST(ShardsHere, AreAllWhenTheyBindALoopbackAddress) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]"}) {
    EXPECT_EQ(ShardsHere(ConfigOf(3, host)), 3u) << host;
  }
  for (const char* host : {"10.0.0.7", "shard.example", "1270.example"}) {
    EXPECT_EQ(ShardsHere(ConfigOf(3, host)), 1u) << host;
  }
}

TEST(OpenBytesMax, OfAllShardsOfAMachineIsAThirdOfWhatIsAvailable) {
  EXPECT_EQ(OpenBytesMax(ConfigOf(1, "127.0.0.1"), kMachine), 6'000'000'000u);
  EXPECT_EQ(OpenBytesMax(ConfigOf(2, "127.0.0.1"), kMachine), 3'000'000'000u);
  EXPECT_EQ(OpenBytesMax(ConfigOf(2, "10.0.0.7"), kMachine), 6'000'000'000u);
}

TEST(OpenBytesMax, IsWhatIsConfigured) {
  RunConfig config = ConfigOf(2, "127.0.0.1");
  config.cluster.shard_memory_mb = 3;
  EXPECT_EQ(OpenBytesMax(config, kMachine), 3'000'000u);
}

TEST(OpenBytesMax, OfAMachineWithoutMemoryIsALimitStill) {
  EXPECT_EQ(OpenBytesMax(ConfigOf(2, "127.0.0.1"), {}), 1u);
}

TEST(BytesForShard, AreAPartOfTheMachineAndNoMoreThanAreAvailable) {
  EXPECT_EQ(BytesForShard(ConfigOf(1, "127.0.0.1"), kMachine), 18'000'000'000u);
  EXPECT_EQ(BytesForShard(ConfigOf(2, "127.0.0.1"), kMachine), 10'000'000'000u);
  EXPECT_EQ(BytesForShard(ConfigOf(2, "10.0.0.7"), kMachine), 18'000'000'000u);
}

// For any number of shards, pushes and both directions' queues fit into the available memory.
TEST(QueuesWithin, AllShardsOfAMachineFit) {
  for (const uint32_t shards : {1u, 2u, 8u}) {
    const RunConfig config = ConfigOf(shards, "127.0.0.1");
    const MachineMemory machine = {.available_bytes = 50e6 * shards, .total_bytes = 100e6 * shards};
    const uint64_t open = OpenBytesMax(config, machine);
    const LinkOptions queues = QueuesWithin(open, config);
    constexpr uint64_t kUpBytes = 16 + 256 * 74, kDownBytes = 16 + 256 * (2 + 192 + 64);
    const double taken = static_cast<double>(open) +
                         1.0 * WorkersMax(config) * queues.receive_queue_frames * kUpBytes +
                         1.0 * queues.send_queue_frames * kDownBytes;
    EXPECT_LE(shards * taken, machine.available_bytes);
    EXPECT_GT(queues.receive_queue_frames, 2);
  }
}

TEST(QueueBytes, AreThoseOfTheShardsLargestSegment) {
  RunConfig config = ConfigOf(2, "127.0.0.1");
  config.cluster.workers_max = 10;
  config.cluster.connections = 3;
  // Of 300 tiles the first shard has a segment of 256 and the other one of 44.
  const Layout layout = *Layout::Create({{{"w", {64, 64 * 300}}}}, {.shard_count = 2});
  const LinkOptions queues = {.receive_queue_frames = 5, .send_queue_frames = 70};
  EXPECT_EQ(QueueBytes(queues, config, layout, 0),
            5u * 30 * (16 + 256 * 74) + 70 * (16 + 256 * 258));
  EXPECT_EQ(QueueBytes(queues, config, layout, 1), 5u * 30 * (16 + 44 * 74) + 70 * (16 + 44 * 258));
}

// But two frames of each connection have room, and 64 out, however little there is.
TEST(QueueBytes, AreAtMostHalfOfWhatPushesMayTake) {
  const RunConfig config = ConfigOf(1, "10.0.0.7");
  const Layout layout = *Layout::Create({{{"w", {64, 64 * 256}}}}, {});
  for (const uint64_t open : {30'000'000u, 1'000'000'000u}) {
    EXPECT_LE(QueueBytes(QueuesWithin(open, config), config, layout, 0), open / 2);
  }
  EXPECT_EQ(QueueBytes(QueuesWithin(1, config), config, layout, 0),
            2u * 64 * (16 + 256 * 74) + 64 * (16 + 256 * 258));
}

}  // namespace
}  // namespace longwave
