#ifndef LONGWAVE_WORKER_SYNC_SEND_ORDER_H_
#define LONGWAVE_WORKER_SYNC_SEND_ORDER_H_

#include <cstdint>
#include <vector>

#include "common/layout/layout.h"

namespace longwave {

// In which order a worker encodes and sends its segments: one of each shard by turns, and each
// worker begins with another shard. Segments in their own order are all of the first shard's at
// first, from every worker at once: its link would carry everything while the others' are idle.
std::vector<uint32_t> SendOrder(const Layout& layout, uint32_t worker);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_SEND_ORDER_H_
