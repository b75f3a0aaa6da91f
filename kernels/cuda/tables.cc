#include "kernels/cuda/tables.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "common/base/status_macros.h"
#include "common/wire/elias_fano.h"
#include "kernels/cuda/buffers.h"
#include "kernels/cuda/cuda_status.h"

namespace longwave::cuda {
namespace {

constexpr size_t kLayoutsMax = 8;
constexpr size_t kPlacesMax = size_t{1} << 16;  // payload layouts of one layout's segments

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
  for (const auto& tables : layouts_) {
    if (tables->hash != layout.hash()) continue;
    tables->last_use = ++uses_;
    return tables.get();
  }
  if (layouts_.size() == kLayoutsMax) {
    const auto oldest =
        std::min_element(layouts_.begin(), layouts_.end(),
                         [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
    const std::unique_ptr<LayoutTables> dropped = std::move(*oldest);
    layouts_.erase(oldest);
    LONGWAVE_RETURN_IF_ERROR(Drop(*dropped));
  }
  auto tables = std::make_unique<LayoutTables>();
  tables->hash = layout.hash();
  tables->last_use = ++uses_;
  LONGWAVE_ASSIGN_OR_RETURN(tables->tiles, Upload(layout.tiles()));
  layouts_.push_back(std::move(tables));
  return layouts_.back().get();
}

absl::Status Tables::Drop(LayoutTables& tables) {
  // A kernel that reads the tables may be under way.
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize());
  for (const auto& [key, places] : tables.places) LONGWAVE_CUDA_RETURN_IF_ERROR(cudaFree(places));
  tables.places.clear();
  return LONGWAVE_CUDA_STATUS(cudaFree(tables.tiles));
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

absl::Status Tables::Place(const Layout& layout, uint32_t segment,
                           const PayloadLayout& payload_layout, PayloadJob& job) {
  const PayloadFormat& format = payload_layout.format();
  const uint32_t count = payload_layout.tile_count(), last = count - 1;
  const TileOffsets& first = payload_layout.offsets(0);
  job.tile_count = count;
  job.k = format.k;
  job.selection = static_cast<uint8_t>(format.selection);
  job.codec = static_cast<uint8_t>(format.codec);
  job.scale_code_max = 0;
  job.places = nullptr;
  job.indices_begin = static_cast<uint32_t>(first.indices);
  job.values_begin = static_cast<uint32_t>(first.values);
  job.indices_end = 0;
  if (format.selection == Selection::kTopK) {
    job.indices_end = static_cast<uint32_t>(
        payload_layout.offsets(last).indices +
        EliasFanoBytes(payload_layout.tile_size(last), payload_layout.sent_count(last)));
  }
  bool one_size = true;
  for (uint32_t t = 1; t < count && one_size; ++t) {
    one_size = payload_layout.tile_size(t) == payload_layout.tile_size(0);
  }
  if (one_size) {
    const TileOffsets& second = payload_layout.offsets(std::min(1u, last));
    job.indices_stride = static_cast<uint32_t>(second.indices - first.indices);
    job.values_stride = static_cast<uint32_t>(second.values - first.values);
    return absl::OkStatus();
  }

  LONGWAVE_ASSIGN_OR_RETURN(LayoutTables * tables, Find(layout));
  const PlacesKey key = {segment, format.selection, format.codec, format.k};
  if (const auto found = tables->places.find(key); found != tables->places.end()) {
    job.places = found->second;
    return absl::OkStatus();
  }
  if (tables->places.size() == kPlacesMax) {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize());
    for (const auto& [old, places] : tables->places) {
      LONGWAVE_CUDA_RETURN_IF_ERROR(cudaFree(places));
    }
    tables->places.clear();
  }
  std::vector<PayloadPlace> places(count);
  for (uint32_t t = 0; t < count; ++t) {
    places[t] = {static_cast<uint32_t>(payload_layout.offsets(t).indices),
                 static_cast<uint32_t>(payload_layout.offsets(t).values)};
  }
  LONGWAVE_ASSIGN_OR_RETURN(PayloadPlace * uploaded, Upload(std::span<const PayloadPlace>(places)));
  tables->places.emplace(key, uploaded);
  job.places = uploaded;
  return absl::OkStatus();
}

}  // namespace longwave::cuda
