#include "common/layout/layout.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "common/base/ceil_divide.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

constexpr uint32_t kRun = 4096;

// The blocks of kModel in order of preference.
struct BlockShape {
  uint32_t rows, cols;
};
constexpr BlockShape kModelBlocks[] = {{64, 64}, {32, 128}, {128, 32}};

// A tensor for the layout: a matrix (trailing dimensions flattened) or, with rows == 0, a vector or
// scalar of `cols` elements.
struct Plane {
  uint64_t rows = 0;
  uint64_t cols = 1;
  uint64_t offset = 0;  // in the flat array

  bool is_matrix() const { return rows != 0; }
};

Plane PlaneOf(const TensorSpec& tensor) {
  Plane plane;
  if (tensor.shape.size() < 2) {
    plane.cols = static_cast<uint64_t>(ElementCount(tensor));
    return plane;
  }
  plane.rows = static_cast<uint64_t>(tensor.shape[0]);
  plane.cols = static_cast<uint64_t>(ElementCount(tensor)) / plane.rows;
  return plane;
}

uint32_t LargestDivisor(uint64_t n, uint32_t at_most) {
  for (uint32_t d = static_cast<uint32_t>(std::min<uint64_t>(n, at_most)); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

// The cut of one plane into a row-major grid of blocks of rows × cols. A run has one row.
struct Cut {
  uint32_t rows, cols;
  uint64_t grid_rows, grid_cols;

  uint64_t tile_count() const { return grid_rows * grid_cols; }
};

Cut Grid(const Plane& plane, uint32_t rows, uint32_t cols) {
  return {rows, cols, CeilDivide(plane.rows, rows), CeilDivide(plane.cols, cols)};
}

Cut CutOf(const Plane& plane, const LayoutOptions& options) {
  const bool tensor = options.tiling == Tiling::kTensor;
  if (!plane.is_matrix()) {
    const uint32_t run = tensor ? LargestDivisor(plane.cols, options.block) : kRun;
    return {1, run, 1, CeilDivide(plane.cols, run)};
  }
  if (tensor) {
    return Grid(plane, LargestDivisor(plane.rows, options.block),
                LargestDivisor(plane.cols, options.block));
  }
  Cut fewest = Grid(plane, kModelBlocks[0].rows, kModelBlocks[0].cols);
  for (const BlockShape& block : kModelBlocks) {
    const Cut cut = Grid(plane, block.rows, block.cols);
    if (cut.tile_count() < fewest.tile_count()) fewest = cut;
  }
  return fewest;
}

void AppendTiles(const Plane& plane, const Cut& cut, uint64_t& coefficient_offset,
                 std::vector<Tile>& tiles) {
  const uint64_t plane_rows = plane.is_matrix() ? plane.rows : 1;
  for (uint64_t i = 0; i < cut.grid_rows; ++i) {
    for (uint64_t j = 0; j < cut.grid_cols; ++j) {
      const uint64_t row = i * cut.rows;
      const uint64_t col = j * cut.cols;
      Tile tile;
      tile.offset = plane.offset + row * plane.cols + col;
      tile.coefficient_offset = coefficient_offset;
      // A run has no second row; its stride is its length, so that it never depends on the model.
      tile.row_stride = plane.is_matrix() ? static_cast<uint32_t>(plane.cols) : cut.cols;
      tile.rows = static_cast<uint16_t>(cut.rows);
      tile.cols = static_cast<uint16_t>(cut.cols);
      tile.rows_valid = static_cast<uint16_t>(std::min<uint64_t>(cut.rows, plane_rows - row));
      tile.cols_valid = static_cast<uint16_t>(std::min<uint64_t>(cut.cols, plane.cols - col));
      coefficient_offset += tile.size();
      tiles.push_back(tile);
    }
  }
}

absl::Status ValidateOptions(const LayoutOptions& options) {
  const auto check = [](const char* what, uint32_t got, uint32_t most) {
    if (got >= 1 && got <= most) return absl::OkStatus();
    return InvalidArgument("layout: ", what, ": got ", got, ", wanted 1 to ", most);
  };
  if (options.tiling != Tiling::kModel && options.tiling != Tiling::kTensor &&
      options.tiling != Tiling::kFlat) {
    return InvalidArgument("layout: tiling: got ", static_cast<int>(options.tiling),
                           ", wanted 0 (model), 1 (tensor) or 2 (flat)");
  }
  LONGWAVE_RETURN_IF_ERROR(check("block", options.block, kLayoutBlockMax));
  LONGWAVE_RETURN_IF_ERROR(check("segment_tiles", options.segment_tiles, kLayoutSegmentTilesMax));
  return check("shard_count", options.shard_count, kLayoutShardsMax);
}

// The planes in the order of the flat array, and each tensor's offset in it.
std::vector<Plane> FlatPlanes(const Manifest& manifest, std::vector<uint64_t>& flat_offsets) {
  std::vector<Plane> planes;
  planes.reserve(manifest.tensors.size());
  flat_offsets.resize(manifest.tensors.size());
  uint64_t offset = 0;
  for (const bool matrices : {true, false}) {
    for (size_t i = 0; i < manifest.tensors.size(); ++i) {
      Plane plane = PlaneOf(manifest.tensors[i]);
      if (plane.is_matrix() != matrices) continue;
      plane.offset = offset;
      flat_offsets[i] = offset;
      offset += static_cast<uint64_t>(ElementCount(manifest.tensors[i]));
      planes.push_back(plane);
    }
  }
  return planes;
}

// Under kModel all vectors are cut as one.
void JoinVectors(std::vector<Plane>& planes) {
  const auto first =
      std::ranges::find_if(planes, [](const Plane& plane) { return !plane.is_matrix(); });
  if (first == planes.end()) return;
  for (auto it = first + 1; it != planes.end(); ++it) first->cols += it->cols;
  planes.erase(first + 1, planes.end());
}

// The planes, their cuts and the number of all tiles.
struct Plan {
  std::vector<uint64_t> flat_offsets;
  std::vector<Plane> planes;
  std::vector<Cut> cuts;  // of the planes
  uint64_t tile_count = 0;
};

absl::StatusOr<Plan> PlanOf(const Manifest& manifest, const LayoutOptions& options) {
  LONGWAVE_RETURN_IF_ERROR(ValidateOptions(options));
  LONGWAVE_RETURN_IF_ERROR(Validate(manifest));
  Plan plan;
  plan.planes = FlatPlanes(manifest, plan.flat_offsets);
  if (options.tiling == Tiling::kModel) JoinVectors(plan.planes);
  if (options.tiling == Tiling::kFlat) {
    plan.planes = {{.rows = 0, .cols = static_cast<uint64_t>(ParameterCount(manifest))}};
  }
  for (const Plane& plane : plan.planes) {
    if (plane.is_matrix() && plane.cols > std::numeric_limits<uint32_t>::max()) {
      return InvalidArgument("layout: got a matrix of ", plane.cols, " columns, wanted at most ",
                             std::numeric_limits<uint32_t>::max());
    }
    plan.cuts.push_back(CutOf(plane, options));
    plan.tile_count += plan.cuts.back().tile_count();
  }
  if (plan.tile_count > kLayoutTilesMax) {
    return InvalidArgument("layout: got ", plan.tile_count, " tiles, wanted at most ",
                           kLayoutTilesMax);
  }
  return plan;
}

}  // namespace

uint64_t LayoutHash(const Manifest& manifest, const LayoutOptions& options) {
  const std::array<uint64_t, 5> words = {
      HashOf(manifest), static_cast<uint64_t>(options.tiling),
      // The block has no effect on the other tilings, so it leaves their hash unchanged.
      options.tiling == Tiling::kTensor ? options.block : 0, options.segment_tiles,
      options.shard_count};
  std::array<unsigned char, sizeof(words)> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(words[i / 8] >> (8 * (i % 8)));
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

absl::StatusOr<uint64_t> CountTiles(const Manifest& manifest, const LayoutOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const Plan plan, PlanOf(manifest, options));
  return plan.tile_count;
}

absl::StatusOr<uint64_t> CountSegments(const Manifest& manifest, const LayoutOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t tiles, CountTiles(manifest, options));
  return CeilDivide(tiles, options.segment_tiles);
}

absl::StatusOr<Layout> Layout::Create(const Manifest& manifest, const LayoutOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(Plan plan, PlanOf(manifest, options));
  const uint64_t tile_count = plan.tile_count;
  const uint64_t segment_count = CeilDivide(tile_count, options.segment_tiles);
  Layout layout;
  layout.options_ = options;
  layout.parameter_count_ = static_cast<uint64_t>(ParameterCount(manifest));
  layout.hash_ = LayoutHash(manifest, options);
  layout.flat_offsets_ = std::move(plan.flat_offsets);
  // Counted before reserving: a thin matrix has many more tiles than its size suggests.
  layout.tiles_.reserve(tile_count);
  for (size_t i = 0; i < plan.planes.size(); ++i) {
    AppendTiles(plan.planes[i], plan.cuts[i], layout.coefficient_count_, layout.tiles_);
  }
  LONGWAVE_CHECK(layout.tiles_.size() == tile_count);
  layout.segments_.reserve(segment_count);
  for (uint64_t s = 0; s < segment_count; ++s) {
    const uint64_t begin = s * options.segment_tiles;
    const uint64_t end = std::min<uint64_t>(begin + options.segment_tiles, tile_count);
    const Tile& last = layout.tiles_[end - 1];
    Segment segment;
    segment.tile_begin = static_cast<uint32_t>(begin);
    segment.tile_count = static_cast<uint32_t>(end - begin);
    segment.coefficient_begin = layout.tiles_[begin].coefficient_offset;
    segment.coefficient_count = last.coefficient_offset + last.size() - segment.coefficient_begin;
    // Contiguous runs whose sizes differ by at most one.
    segment.shard = static_cast<uint32_t>(s * options.shard_count / segment_count);
    layout.segments_.push_back(segment);
  }
  return layout;
}

std::vector<uint32_t> Layout::TileSizes(uint32_t segment) const {
  LONGWAVE_CHECK(segment < segments_.size());
  std::vector<uint32_t> sizes;
  sizes.reserve(segments_[segment].tile_count);
  for (const Tile& tile : tiles(segments_[segment])) sizes.push_back(tile.size());
  return sizes;
}

SegmentRange AllSegments(const Layout& layout) {
  return {.begin = 0, .end = static_cast<uint32_t>(layout.segments().size())};
}

SegmentRange SegmentsOfRank(const Layout& layout, uint32_t rank, uint32_t ranks) {
  const uint64_t segments = layout.segments().size();
  return {.begin = static_cast<uint32_t>(segments * rank / ranks),
          .end = static_cast<uint32_t>(segments * (rank + 1) / ranks)};
}

uint32_t FragmentCount(uint32_t wanted, const Layout& layout) {
  return std::clamp(wanted, 1u, static_cast<uint32_t>(layout.segments().size()));
}

}  // namespace longwave
