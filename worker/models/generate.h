#ifndef LONGWAVE_WORKER_MODELS_GENERATE_H_
#define LONGWAVE_WORKER_MODELS_GENERATE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/base/rng.h"
#include "worker/models/replica.h"

namespace longwave {

// The choice of the next token: from the top_k most likely ones (0: from all), by their
// probabilities at this temperature; 0: the most likely one.
struct Sampling {
  double temperature = 0.8;
  uint32_t top_k = 40;
  uint64_t seed = 0;
};

// An index into `logits`, which are not empty; the smaller of equal ones.
size_t SampleFrom(std::span<const float> logits, const Sampling& sampling, Rng& rng);

// Continues `tokens`, which are not empty, by `length`, and passes each to `take` at once. The
// model sees up to `context` tokens. When these are full, the older half is dropped. Cancelled:
// take returned false.
absl::Status Generate(Replica& replica, uint32_t context, std::vector<int64_t> tokens,
                      uint32_t length, const Sampling& sampling,
                      const std::function<bool(size_t)>& take);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_GENERATE_H_
