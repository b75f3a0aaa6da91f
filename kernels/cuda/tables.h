#ifndef LONGWAVE_KERNELS_CUDA_TABLES_H_
#define LONGWAVE_KERNELS_CUDA_TABLES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "kernels/cuda/jobs.h"
#include "kernels/dct_plan.h"

namespace longwave::cuda {

// Tables in device memory that are uploaded once: a layout's tiles and the transforms' plans.
//
// The key is a layout's hash. When there are too many layouts, the least recently used is freed
// after waiting for the device. Not thread-safe: results are valid until the next call.
class Tables {
 public:
  Tables() = default;
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // Layout::tiles().
  absl::StatusOr<const Tile*> TilesOf(const Layout& layout);
  // TilesJob::plans with the plans of all tiles of the layout.
  absl::StatusOr<const DctPlanView*> PlansOf(const Layout& layout);
  // DctBasis().
  absl::StatusOr<const float*> Basis();

 private:
  struct LayoutTables {
    uint64_t hash = 0;
    Tile* tiles = nullptr;
    bool has_plans = false;
  };

  absl::StatusOr<LayoutTables*> Find(const Layout& layout);
  absl::Status AddPlan(uint32_t length);

  std::vector<LayoutTables> layouts_;  // the latest use last
  DctPlanView* plans_ = nullptr;
  std::array<bool, kDctLengthMax + 1> has_plan_{};
  float* basis_ = nullptr;
};

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_TABLES_H_
