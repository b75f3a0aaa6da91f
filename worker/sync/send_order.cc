#include "worker/sync/send_order.h"

#include <cstddef>

namespace longwave {

std::vector<uint32_t> SendOrder(const Layout& layout, uint32_t worker) {
  const uint32_t shards = layout.options().shard_count;
  const auto segment_count = static_cast<uint32_t>(layout.segments().size());
  std::vector<std::vector<uint32_t>> by_shard(shards);
  for (uint32_t s = 0; s < segment_count; ++s) {
    by_shard[layout.segments()[s].shard].push_back(s);
  }
  std::vector<uint32_t> order;
  order.reserve(segment_count);
  for (size_t turn = 0; order.size() < segment_count; ++turn) {
    for (uint32_t i = 0; i < shards; ++i) {
      const std::vector<uint32_t>& own = by_shard[(worker % shards + i) % shards];
      if (turn < own.size()) order.push_back(own[turn]);
    }
  }
  return order;
}

}  // namespace longwave
