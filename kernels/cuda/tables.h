#ifndef LONGWAVE_KERNELS_CUDA_TABLES_H_
#define LONGWAVE_KERNELS_CUDA_TABLES_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/payload.h"
#include "kernels/cuda/jobs.h"
#include "kernels/dct_plan.h"

namespace longwave::cuda {

// Tables in device memory that are uploaded once: a layout's tiles, the transforms' plans, and the
// offsets of tiles' parts in payloads with tiles of many sizes.
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
  // Sets the places and strides of a segment's payload.
  absl::Status Place(const Layout& layout, uint32_t segment, const PayloadLayout& payload_layout,
                     PayloadJob& job);

 private:
  using PlacesKey = std::tuple<uint32_t, Selection, ValueCodec, uint16_t>;
  struct LayoutTables {
    uint64_t hash = 0;
    uint64_t last_use = 0;
    Tile* tiles = nullptr;
    bool has_plans = false;
    std::map<PlacesKey, PayloadPlace*> places;
  };

  absl::StatusOr<LayoutTables*> Find(const Layout& layout);
  static absl::Status Drop(LayoutTables& tables);
  absl::Status AddPlan(uint32_t length);

  std::vector<std::unique_ptr<LayoutTables>> layouts_;
  uint64_t uses_ = 0;
  DctPlanView* plans_ = nullptr;
  std::array<bool, kDctLengthMax + 1> has_plan_{};
  float* basis_ = nullptr;
};

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_TABLES_H_
