#ifndef LONGWAVE_WORKER_DATA_BATCH_H_
#define LONGWAVE_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <vector>

namespace longwave {

// The sequences of one step: tokens and targets are [rows, length], row-major, and targets are the
// tokens one place later.
struct Batch {
  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int64_t> tokens;
  std::vector<int64_t> targets;

  bool operator==(const Batch&) const = default;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_BATCH_H_
