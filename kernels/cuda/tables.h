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

// What the kernels look up in device memory and what no call brings there twice: the tiles of a
// layout, the transforms' plans, and where the parts of tiles of many sizes are in a payload.
//
// Layouts are known by their hashes, the least recently used goes when there are too many; the
// device is waited for then. Not thread-safe: what it gives out stays until the next call.
class Tables {
 public:
  Tables() = default;
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // Layout::tiles().
  absl::StatusOr<const Tile*> TilesOf(const Layout& layout);
  // As TilesJob::plans, with those of all tiles of the layout.
  absl::StatusOr<const DctPlanView*> PlansOf(const Layout& layout);
  // DctBasis().
  absl::StatusOr<const float*> Basis();
  // Places and strides of a segment's payload.
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
