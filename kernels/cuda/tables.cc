#include "kernels/cuda/tables.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "common/base/status_macros.h"
#include "kernels/cuda/buffers.h"
#include "kernels/cuda/cuda_status.h"

namespace longwave::cuda {
namespace {

constexpr size_t kLayoutsMax = 8;

// A copy in device memory, complete for every stream.
template <typename T>
absl::StatusOr<T*> Upload(std::span<const T> values) {
  // A plan of length 1 has no terms.
  LONGWAVE_ASSIGN_OR_RETURN(void* memory, NewMemory(MemoryKind::kDevice, values.size_bytes()));
  absl::Status status = LONGWAVE_CUDA_STATUS(
      cudaMemcpy(memory, values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
  if (status.ok()) status = LONGWAVE_CUDA_STATUS(cudaDeviceSynchronize());
  if (status.ok()) return static_cast<T*>(memory);
  static_cast<void>(cudaFree(memory));
  return status;
}

}  // namespace

absl::StatusOr<Tables::LayoutTables*> Tables::Find(const Layout& layout) {
  const auto found = std::ranges::find(layouts_, layout.hash(), &LayoutTables::hash);
  if (found != layouts_.end()) {
    std::rotate(found, found + 1, layouts_.end());
    return &layouts_.back();
  }
  if (layouts_.size() == kLayoutsMax) {
    Tile* const dropped = layouts_.front().tiles;
    layouts_.erase(layouts_.begin());
    // A kernel that reads the tiles may be under way.
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize());
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaFree(dropped));
  }
  LayoutTables tables{.hash = layout.hash()};
  LONGWAVE_ASSIGN_OR_RETURN(tables.tiles, Upload(layout.tiles()));
  return &layouts_.emplace_back(tables);
}

absl::StatusOr<const Tile*> Tables::TilesOf(const Layout& layout) {
  LONGWAVE_ASSIGN_OR_RETURN(const LayoutTables* tables, Find(layout));
  return tables->tiles;
}

absl::Status Tables::AddPlan(uint32_t length) {
  if (has_plan_[length]) return absl::OkStatus();
  std::array<DctPlanView, 2> views;
  // All are in an array, so that a device without room for some of them keeps none.
  std::vector<std::byte> all;
  const auto append = [&all](const auto* values, size_t count) {
    constexpr size_t kAlignment = 256;  // as of arrays of their own
    const size_t begin = (all.size() + kAlignment - 1) / kAlignment * kAlignment;
    const auto bytes = std::as_bytes(std::span(values, count));
    all.resize(begin);
    all.insert(all.end(), bytes.begin(), bytes.end());
    return begin;
  };
  std::array<std::array<size_t, 3>, 2> begins;
  for (const DctDirection direction : {DctDirection::kForward, DctDirection::kInverse}) {
    const DctPlan& plan = DctPlan::Of(length, direction);
    const DctPlanView view = views[static_cast<size_t>(direction)] = plan.view();
    begins[static_cast<size_t>(direction)] = {
        append(view.row_begin, size_t{view.stage_count} * (length + 1)),
        append(view.index, plan.term_count()), append(view.coefficient, plan.term_count())};
  }
  LONGWAVE_ASSIGN_OR_RETURN(const std::byte* const there, Upload(std::span<const std::byte>(all)));
  for (size_t i = 0; i < views.size(); ++i) {
    views[i].row_begin = reinterpret_cast<const uint32_t*>(there + begins[i][0]);
    views[i].index = reinterpret_cast<const uint16_t*>(there + begins[i][1]);
    views[i].coefficient = reinterpret_cast<const float*>(there + begins[i][2]);
  }
  LONGWAVE_CUDA_RETURN_IF_ERROR(
      cudaMemcpy(plans_ + 2 * length, views.data(), sizeof views, cudaMemcpyHostToDevice));
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize());
  has_plan_[length] = true;
  return absl::OkStatus();
}

absl::StatusOr<const DctPlanView*> Tables::PlansOf(const Layout& layout) {
  LONGWAVE_ASSIGN_OR_RETURN(LayoutTables * tables, Find(layout));
  if (tables->has_plans) return plans_;
  if (plans_ == nullptr) {
    const std::vector<DctPlanView> none(2 * has_plan_.size());
    LONGWAVE_ASSIGN_OR_RETURN(plans_, Upload(std::span(none)));
  }
  for (const Tile& tile : layout.tiles()) {
    LONGWAVE_RETURN_IF_ERROR(AddPlan(tile.rows));
    LONGWAVE_RETURN_IF_ERROR(AddPlan(tile.cols));
  }
  tables->has_plans = true;
  return plans_;
}

absl::StatusOr<const float*> Tables::Basis() {
  if (basis_ == nullptr) {
    LONGWAVE_ASSIGN_OR_RETURN(basis_, Upload(std::span(DctBasis(), kDctBasisSize)));
  }
  return basis_;
}

}  // namespace longwave::cuda
