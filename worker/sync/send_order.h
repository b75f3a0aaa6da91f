#ifndef LONGWAVE_WORKER_SYNC_SEND_ORDER_H_
#define LONGWAVE_WORKER_SYNC_SEND_ORDER_H_

#include <cstdint>
#include <vector>

#include "common/layout/layout.h"

namespace longwave {

// The order in which a worker encodes and sends its segments: one of each shard in turn, and each
// worker begins with another shard. In plain order all workers would fill the first shard's link at
// once while the others' links are idle.
std::vector<uint32_t> SendOrder(const Layout& layout, uint32_t worker);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_SEND_ORDER_H_
