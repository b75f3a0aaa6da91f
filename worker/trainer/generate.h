#ifndef LONGWAVE_WORKER_TRAINER_GENERATE_H_
#define LONGWAVE_WORKER_TRAINER_GENERATE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/rng.h"
#include "worker/models/replica.h"

namespace longwave {

// How the next byte is drawn: from the top_k most likely ones (0: from all), by their
// probabilities at this temperature; 0: the most likely one.
struct Sampling {
  double temperature = 0.8;
  uint32_t top_k = 40;
  uint64_t seed = 0;
};

// One of the indices of `logits`, which are not empty; of equal ones the smaller is preferred.
size_t SampleFrom(std::span<const float> logits, const Sampling& sampling, Rng& rng);

// Goes on with `prompt`, which is not empty, for `length` bytes, each of which is passed on as soon
// as it is known. The model sees all of `context` bytes, and then at least the last half of them:
// when they are full, a half is forgotten. Cancelled: take returned false.
absl::Status Generate(Replica& replica, uint32_t context, const std::string& prompt,
                      uint32_t length, const Sampling& sampling,
                      const std::function<bool(char)>& take);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_GENERATE_H_
