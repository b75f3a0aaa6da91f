#include "worker/models/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {

size_t SampleFrom(std::span<const float> logits, const Sampling& sampling, Rng& rng) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const size_t kept = sampling.top_k == 0 ? order.size() : sampling.top_k;
  order.resize(std::min(order.size(), kept));
  if (sampling.temperature == 0 || order.size() == 1) return order.front();
  std::vector<double> upto;  // cumulated sums, proportional to the probabilities
  double sum = 0;
  for (const size_t index : order) {
    const double below = double{logits[index]} - double{logits[order.front()]};
    upto.push_back(sum += std::exp(below / sampling.temperature));
  }
  const double drawn = rng.Uniform() * sum;
  const auto found = std::upper_bound(upto.begin(), upto.end(), drawn);
  return order[std::min<size_t>(found - upto.begin(), order.size() - 1)];
}

absl::Status Generate(Replica& replica, uint32_t context, std::vector<int64_t> tokens,
                      uint32_t length, const Sampling& sampling,
                      const std::function<bool(size_t)>& take) {
  Rng rng(sampling.seed);
  for (uint32_t i = 0; i < length; ++i) {
    if (tokens.size() > context) tokens.erase(tokens.begin(), tokens.end() - (context + 1) / 2);
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> logits, replica.NextLogits(tokens));
    const size_t next = SampleFrom(logits, sampling, rng);
    tokens.push_back(static_cast<int64_t>(next));
    if (!take(next)) return Cancelled("nobody reads");
  }
  return absl::OkStatus();
}

}  // namespace longwave
