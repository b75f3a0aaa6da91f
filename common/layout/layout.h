#ifndef LONGWAVE_COMMON_LAYOUT_LAYOUT_H_
#define LONGWAVE_COMMON_LAYOUT_LAYOUT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/manifest.h"

namespace longwave {

// The ways of cutting tensors into tiles.
enum class Tiling : uint8_t {
  // Matrices (trailing dimensions flattened) in blocks of 4096, edges zero-padded; all vectors and
  // scalars of the model laid end to end in runs of 4096. Every tile has 4096 coefficients. A block
  // is 64 × 64, or 32 × 128 or 128 × 32 where fewer of those cover the matrix: an edge of 96 would
  // waste a quarter of a 64 × 64 grid.
  kModel = 0,
  // Each tensor on its own, as published DeMo does: a matrix in the largest blocks of at most block
  // × block that divide its sides, a vector in the largest runs of at most `block` that divide its
  // length.
  kTensor = 1,
  // The whole flat array in runs of 4096 across tensors; only the end is padded. For methods
  // without a transform, which need no shapes.
  kFlat = 2,
};

inline constexpr uint32_t kLayoutBlockMax = 64;
inline constexpr uint32_t kLayoutSegmentTilesMax = 4096;
inline constexpr uint32_t kLayoutShardsMax = 4096;
// A table of 8 GiB: the tiles of 2^40 parameters in full tiles. Thin matrices reach it earlier.
inline constexpr uint64_t kLayoutTilesMax = uint64_t{1} << 28;

struct LayoutOptions {
  Tiling tiling = Tiling::kModel;
  uint32_t block = 64;           // kTensor only: 1 … kLayoutBlockMax
  uint32_t segment_tiles = 256;  // tiles of a segment, 1 … 4096: 256 full ones are 1 M parameters
  uint32_t shard_count = 1;      // 1 … 4096

  bool operator==(const LayoutOptions&) const = default;
};

// A tile. Parameters are in one flat array of fp32: the matrices in manifest order, row by row,
// then the vectors in manifest order (see Layout::flat_offset). A matrix is a tensor of two
// dimensions or more, even of size 1, with its trailing dimensions flattened. Tiles follow the flat
// array; those of a matrix are row-major over its blocks. A tile has rows × cols coefficients over
// rows_valid × cols_valid elements; the rest is padding, read as zero and never written. Trivially
// copyable, since a GPU uses the same table.
struct Tile {
  uint64_t offset;              // of its first element in the flat array
  uint64_t coefficient_offset;  // of its first coefficient among all tiles' coefficients
  uint32_t row_stride;          // elements between rows in the flat array
  uint16_t rows, cols;          // rows == 1: a run
  uint16_t rows_valid, cols_valid;

  uint32_t size() const { return static_cast<uint32_t>(rows) * cols; }
  bool operator==(const Tile&) const = default;
};
static_assert(sizeof(Tile) == 32);

// A contiguous run of tiles: the unit of encoding, sending, merging and applying.
struct Segment {
  uint32_t tile_begin;
  uint32_t tile_count;
  uint64_t coefficient_begin;
  uint64_t coefficient_count;
  uint32_t shard;  // the aggregation server that owns it; of a small model some own none

  bool operator==(const Segment&) const = default;
};

// Tiles, segments and shards as a function of manifest and options, the same in every process.
class Layout {
 public:
  // Errors: InvalidArgument (the manifest (see Validate), an option out of its range, more than
  // kLayoutTilesMax tiles, a matrix of 2^32 columns or more).
  static absl::StatusOr<Layout> Create(const Manifest& manifest, const LayoutOptions& options);

  std::span<const Tile> tiles() const { return tiles_; }
  std::span<const Tile> tiles(const Segment& segment) const {
    return tiles().subspan(segment.tile_begin, segment.tile_count);
  }
  std::span<const Segment> segments() const { return segments_; }
  // Coefficients of each tile of `segment`, in order.
  std::vector<uint32_t> TileSizes(uint32_t segment) const;

  uint64_t parameter_count() const { return parameter_count_; }      // elements of the flat array
  uint64_t coefficient_count() const { return coefficient_count_; }  // of all tiles, with padding
  uint64_t flat_offset(size_t tensor) const { return flat_offsets_[tensor]; }  // manifest's index
  const LayoutOptions& options() const { return options_; }
  // A hash of manifest and options: processes with equal hashes have equal layouts.
  uint64_t hash() const { return hash_; }

 private:
  Layout() = default;

  LayoutOptions options_;
  std::vector<Tile> tiles_;
  std::vector<Segment> segments_;
  std::vector<uint64_t> flat_offsets_;
  uint64_t parameter_count_ = 0;
  uint64_t coefficient_count_ = 0;
  uint64_t hash_ = 0;
};

// Counts what Layout::Create would make, by arithmetic alone: a model from another process's
// message costs no memory. Errors: as Create's.
absl::StatusOr<uint64_t> CountTiles(const Manifest& manifest, const LayoutOptions& options);
absl::StatusOr<uint64_t> CountSegments(const Manifest& manifest, const LayoutOptions& options);
uint64_t LayoutHash(const Manifest& manifest, const LayoutOptions& options);  // Layout::hash()

// Segments begin … end − 1.
struct SegmentRange {
  uint32_t begin = 0;
  uint32_t end = 0;

  bool Contains(uint32_t segment) const { return begin <= segment && segment < end; }
  bool operator==(const SegmentRange&) const = default;
};

// All segments.
SegmentRange AllSegments(const Layout& layout);
// The segments of a rank of a node: [S·rank/ranks, S·(rank + 1)/ranks). Empty if the node has more
// ranks than the layout has segments. rank < ranks.
SegmentRange SegmentsOfRank(const Layout& layout, uint32_t rank, uint32_t ranks);

// The number of fragments: `wanted`, but at most one for each segment; the same in every process. A
// fragment is a part of the model that is synced at its own step of the H: the segments whose index
// is `fragment` modulo that number.
uint32_t FragmentCount(uint32_t wanted, const Layout& layout);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LAYOUT_LAYOUT_H_
