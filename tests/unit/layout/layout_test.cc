#include "common/layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace longwave {
namespace {

using testing::HasSubstr;

// Odd shapes: thin, tall, exact, one past, of rank 0 to 4, matrices and vectors mixed.
Manifest OddManifest() {
  return {{{"bias", {5}},
           {"tall", {130, 3}},
           {"scalar", {}},
           {"exact", {64, 128}},
           {"one_past", {65, 129}},
           {"long_vector", {5000}},
           {"column", {70, 1}},
           {"row", {1, 70}},
           {"conv", {8, 3, 5, 5}},
           {"unit", {1, 1}},
           {"prime", {67, 97}},
           {"vector", {96}}}};
}

Layout Create(const Manifest& manifest, const LayoutOptions& options) {
  auto layout = Layout::Create(manifest, options);
  LONGWAVE_CHECK(layout.ok());
  return *std::move(layout);
}

std::string Refusal(const Manifest& manifest, const LayoutOptions& options) {
  const auto layout = Layout::Create(manifest, options);
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(layout.status().message());
}

// A tile with these rows and columns, as many of which are valid.
Tile TileAt(uint64_t offset, uint64_t coefficient_offset, uint32_t row_stride,
            std::pair<uint16_t, uint16_t> size, std::pair<uint16_t, uint16_t> valid) {
  return {.offset = offset,
          .coefficient_offset = coefficient_offset,
          .row_stride = row_stride,
          .rows = size.first,
          .cols = size.second,
          .rows_valid = valid.first,
          .cols_valid = valid.second};
}

void ExpectWholeCover(const Layout& layout) {
  std::vector<int> covered(layout.parameter_count());
  uint64_t coefficient = 0;
  for (const Tile& tile : layout.tiles()) {
    ASSERT_EQ(tile.coefficient_offset, coefficient);
    ASSERT_GE(tile.rows_valid, 1);
    ASSERT_GE(tile.cols_valid, 1);
    ASSERT_LE(tile.rows_valid, tile.rows);
    ASSERT_LE(tile.cols_valid, tile.cols);
    ASSERT_LE(tile.size(), 4096u);
    coefficient += tile.size();
    for (uint64_t row = 0; row < tile.rows_valid; ++row) {
      for (uint64_t col = 0; col < tile.cols_valid; ++col) {
        const uint64_t at = tile.offset + row * tile.row_stride + col;
        ASSERT_LT(at, covered.size());
        ++covered[at];
      }
    }
  }
  EXPECT_EQ(layout.coefficient_count(), coefficient);
  EXPECT_EQ(std::set<int>(covered.begin(), covered.end()), std::set<int>{1});
}

TEST(Layout, CoversEveryElementOnce) {
  for (Tiling tiling : {Tiling::kModel, Tiling::kTensor, Tiling::kFlat}) {
    for (uint32_t block : {1u, 2u, 7u, 16u, 64u}) {
      ExpectWholeCover(Create(OddManifest(), {.tiling = tiling, .block = block}));
    }
  }
}

TEST(Layout, CoversEachShapeAlone) {
  for (Tiling tiling : {Tiling::kModel, Tiling::kTensor, Tiling::kFlat}) {
    for (const TensorSpec& tensor : OddManifest().tensors) {
      ExpectWholeCover(Create({{tensor}}, {.tiling = tiling}));
    }
  }
}

TEST(Layout, PutsMatricesBeforeVectorsInTheFlatArray) {
  const Layout layout = Create({{{"v", {5}}, {"m", {2, 3}}, {"s", {}}, {"n", {4, 1, 2}}}}, {});
  EXPECT_EQ(layout.flat_offset(1), 0u);
  EXPECT_EQ(layout.flat_offset(3), 6u);
  EXPECT_EQ(layout.flat_offset(0), 14u);
  EXPECT_EQ(layout.flat_offset(2), 19u);
  EXPECT_EQ(layout.parameter_count(), 20u);
}

TEST(Layout, CutsMatricesIntoPaddedBlocksRowByRow) {
  const Layout layout = Create({{{"a", {2, 2}}, {"m", {129, 130}}}}, {});
  ASSERT_EQ(layout.tiles().size(), 1u + 3 * 3);
  EXPECT_EQ(layout.tiles()[3], TileAt(4 + 128, 3 * 4096, 130, {64, 64}, {64, 2}));
  EXPECT_EQ(layout.tiles()[4], TileAt(4 + 64 * 130, 4 * 4096, 130, {64, 64}, {64, 64}));
}

TEST(Layout, TurnsBlocksWhereThatCoversAMatrixWithFewer) {
  // 256 × 96 in 64 × 64 is 4 × 2 blocks, a quarter of them padding; 128 × 32 fits it exactly.
  const Layout tall = Create({{{"m", {256, 96}}}}, {});
  ASSERT_EQ(tall.tiles().size(), 6u);
  EXPECT_EQ(tall.tiles()[1], TileAt(32, 4096, 96, {128, 32}, {128, 32}));
  const Layout wide = Create({{{"m", {96, 384}}}}, {});
  ASSERT_EQ(wide.tiles().size(), 9u);
  EXPECT_EQ(wide.tiles()[0].rows, 32);
  EXPECT_EQ(wide.tiles()[0].cols, 128);
  // 128 × 128 fits all three: 64 × 64 is preferred.
  EXPECT_EQ(Create({{{"m", {128, 128}}}}, {}).tiles()[0].rows, 64);
}

TEST(Layout, CutsAFlatModelIntoRunsThatCrossTensors) {
  const Layout layout =
      Create({{{"v", {4000}}, {"m", {65, 129}}}}, LayoutOptions{.tiling = Tiling::kFlat});
  ASSERT_EQ(layout.tiles().size(), 4u);  // (65 · 129 + 4000) / 4096 = 3.02
  EXPECT_EQ(layout.flat_offset(0), 65u * 129);
  EXPECT_EQ(layout.tiles()[3],
            TileAt(3 * 4096, 3 * 4096, 4096, {1, 4096}, {1, 65 * 129 + 4000 - 3 * 4096}));
}

TEST(Layout, LaysVectorsEndToEndInRunsOf4096) {
  const Layout layout = Create({{{"v", {4000}}, {"m", {1, 1}}, {"w", {200}}, {"s", {}}}}, {});
  ASSERT_EQ(layout.tiles().size(), 3u);
  EXPECT_EQ(layout.tiles()[1], TileAt(1, 4096, 4096, {1, 4096}, {1, 4096}));
  EXPECT_EQ(layout.tiles()[2], TileAt(4097, 8192, 4096, {1, 4096}, {1, 105}));
}

TEST(Layout, CutsEachTensorByItsLargestDivisors) {
  const auto first_tile = [](std::vector<int64_t> shape, uint32_t block) {
    const Layout layout =
        Create({{{"t", std::move(shape)}}}, {.tiling = Tiling::kTensor, .block = block});
    const Tile tile = layout.tiles()[0];
    EXPECT_EQ(tile.rows, tile.rows_valid);
    EXPECT_EQ(tile.cols, tile.cols_valid);
    return std::pair<int, int>(tile.rows, tile.cols);
  };
  using Pair = std::pair<int, int>;
  EXPECT_EQ(first_tile({96, 288}, 64), Pair(48, 48));
  EXPECT_EQ(first_tile({128, 64}, 64), Pair(64, 64));
  EXPECT_EQ(first_tile({10, 67}, 64), Pair(10, 1));
  EXPECT_EQ(first_tile({5, 7}, 64), Pair(5, 7));
  EXPECT_EQ(first_tile({1, 70}, 64), Pair(1, 35));
  EXPECT_EQ(first_tile({8, 3, 5, 5}, 64), Pair(8, 25));
  EXPECT_EQ(first_tile({96}, 64), Pair(1, 48));
  EXPECT_EQ(first_tile({4096}, 16), Pair(1, 16));
  EXPECT_EQ(first_tile({}, 64), Pair(1, 1));
}

TEST(Layout, CutsOneTensorWithoutLookingAtTheOthers) {
  const Layout layout =
      Create({{{"v", {6}}, {"m", {4, 4}}, {"w", {9}}}}, {.tiling = Tiling::kTensor, .block = 4});
  ASSERT_EQ(layout.tiles().size(), 1u + 2 + 3);
  EXPECT_EQ(layout.tiles()[0].offset, layout.flat_offset(1));
  EXPECT_EQ(layout.tiles()[1].offset, layout.flat_offset(0));
  EXPECT_EQ(layout.tiles()[3].offset, layout.flat_offset(2));
  EXPECT_EQ(layout.TileSizes(0), (std::vector<uint32_t>{16, 3, 3, 3, 3, 3}));
}

TEST(Layout, FormsContiguousSegments) {
  for (uint32_t segment_tiles : {1u, 2u, 3u, 7u, 4096u}) {
    const Layout layout = Create(OddManifest(), {.segment_tiles = segment_tiles});
    uint32_t tile = 0;
    uint64_t coefficient = 0;
    for (uint32_t s = 0; s < layout.segments().size(); ++s) {
      const Segment& segment = layout.segments()[s];
      EXPECT_EQ(segment.tile_begin, tile);
      EXPECT_EQ(segment.coefficient_begin, coefficient);
      EXPECT_TRUE(segment.tile_count == segment_tiles || s + 1 == layout.segments().size());
      uint64_t sum = 0;
      for (uint32_t size : layout.TileSizes(s)) sum += size;
      EXPECT_EQ(segment.coefficient_count, sum);
      EXPECT_EQ(layout.tiles(segment).size(), segment.tile_count);
      tile += segment.tile_count;
      coefficient += segment.coefficient_count;
    }
    EXPECT_EQ(tile, layout.tiles().size());
    EXPECT_EQ(coefficient, layout.coefficient_count());
    EXPECT_EQ(*CountSegments(OddManifest(), layout.options()), layout.segments().size());
    EXPECT_EQ(LayoutHash(OddManifest(), layout.options()), layout.hash());
  }
}

TEST(Layout, GivesShardsContiguousRunsThatDifferByAtMostOne) {
  const uint32_t segments =
      static_cast<uint32_t>(Create(OddManifest(), {.segment_tiles = 1}).segments().size());
  for (uint32_t shards = 1; shards <= segments; ++shards) {
    const Layout layout = Create(OddManifest(), {.segment_tiles = 1, .shard_count = shards});
    std::vector<uint32_t> owned(shards);
    uint32_t previous = 0;
    for (const Segment& segment : layout.segments()) {
      ASSERT_LT(segment.shard, shards);
      EXPECT_TRUE(segment.shard == previous || segment.shard == previous + 1);
      previous = segment.shard;
      ++owned[segment.shard];
    }
    for (uint32_t count : owned) {
      EXPECT_GE(count, segments / shards);
      EXPECT_LE(count, (segments + shards - 1) / shards);
    }
  }
}

TEST(Layout, OfFewerSegmentsThanShardsSomeShardsHaveNone) {
  const Manifest manifest = {{{"m", {64, 192}}}};
  const LayoutOptions options{.segment_tiles = 2, .shard_count = 3};
  const Layout layout = Create(manifest, options);
  ASSERT_EQ(layout.segments().size(), 2u);
  EXPECT_EQ(layout.segments()[0].shard, 0u);
  EXPECT_EQ(layout.segments()[1].shard, 1u);
  EXPECT_EQ(*CountSegments(manifest, options), 2u);
}

TEST(Layout, RejectsOptionsOutOfRange) {
  const Manifest manifest = {{{"m", {64, 64}}}};
  EXPECT_THAT(Refusal(manifest, {.block = 0}), HasSubstr("block: got 0, wanted 1 to 64"));
  EXPECT_THAT(Refusal(manifest, {.block = 65}), HasSubstr("block: got 65"));
  EXPECT_THAT(Refusal(manifest, {.segment_tiles = 0}), HasSubstr("segment_tiles: got 0"));
  EXPECT_THAT(Refusal(manifest, {.segment_tiles = 4097}), HasSubstr("segment_tiles: got 4097"));
  EXPECT_THAT(Refusal(manifest, {.shard_count = 0}), HasSubstr("shard_count: got 0"));
  EXPECT_THAT(Refusal(manifest, {.shard_count = 4097}), HasSubstr("shard_count: got 4097"));
  EXPECT_THAT(Refusal(manifest, {.tiling = static_cast<Tiling>(3)}), HasSubstr("tiling: got 3"));
}

TEST(Layout, RejectsABadManifest) { EXPECT_THAT(Refusal({}, {}), HasSubstr("no tensors")); }

TEST(Layout, RejectsMoreTilesThanItsTableHolds) {
  // Accepted as a manifest; a tile an element would be a table of 2^40 entries.
  EXPECT_THAT(Refusal({{{"m", {int64_t{1} << 38, 1}}}}, {}), HasSubstr("tiles, wanted at most"));
  EXPECT_THAT(Refusal({{{"m", {1, int64_t{1} << 33}}}}, {}), HasSubstr("columns"));
}

TEST(LayoutHash, TellsManifestsAndOptionsApart) {
  const auto hash = [](const Manifest& manifest, const LayoutOptions& options) {
    return Create(manifest, options).hash();
  };
  const Manifest manifest = OddManifest();
  Manifest other = manifest;
  other.tensors[0].name = "bias2";
  const std::set<uint64_t> hashes = {
      hash(manifest, {}),
      hash(other, {}),
      hash(manifest, {.segment_tiles = 3}),
      hash(manifest, {.segment_tiles = 3, .shard_count = 2}),
      hash(manifest, {.tiling = Tiling::kTensor}),
      hash(manifest, {.tiling = Tiling::kTensor, .block = 32}),
  };
  EXPECT_EQ(hashes.size(), 6u);
  EXPECT_EQ(hash(manifest, {}), hash(manifest, {.block = 32}));
}

TEST(FragmentCount, IsAtMostThatOfTheSegmentsAndAtLeastOne) {
  const Layout layout = Create(OddManifest(), {.tiling = Tiling::kFlat, .segment_tiles = 1});
  const auto segments = static_cast<uint32_t>(layout.segments().size());
  ASSERT_GT(segments, 2u);
  EXPECT_EQ(FragmentCount(2, layout), 2u);
  EXPECT_EQ(FragmentCount(segments + 1, layout), segments);
  EXPECT_EQ(FragmentCount(0, layout), 1u);
}

}  // namespace
}  // namespace longwave
