#ifndef LONGWAVE_WORKER_MODELS_INNER_OPTIMIZER_H_
#define LONGWAVE_WORKER_MODELS_INNER_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace longwave {

// Contiguous parameters of the flat array, with or without weight decay.
struct ParameterRange {
  uint64_t begin = 0;
  uint64_t count = 0;
  bool decays = false;
};

// An array of an optimizer's state, in the backend's or the host's memory. The name begins with the
// optimizer's.
struct StateArray {
  const char* name = nullptr;
  void* data = nullptr;
  size_t bytes = 0;
};

// The optimizer of the steps between two syncs. The state belongs to this worker alone.
class InnerOptimizer {
 public:
  virtual ~InnerOptimizer() = default;

  // Both arrays are flat in the layout's order, in the backend's memory. Enqueues and returns.
  virtual absl::Status Step(const float* gradient, double learning_rate, float* theta) = 0;

  // The whole state, with the same names and sizes at any time. A caller may overwrite it to
  // restore another state.
  virtual std::vector<StateArray> State() = 0;
  // InvalidArgument: the state is impossible.
  virtual absl::Status CheckState() const { return absl::OkStatus(); }
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_INNER_OPTIMIZER_H_
