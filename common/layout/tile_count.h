#ifndef LONGWAVE_COMMON_LAYOUT_TILE_COUNT_H_
#define LONGWAVE_COMMON_LAYOUT_TILE_COUNT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"

namespace longwave {

// The number of tiles that Layout::Create would make, by arithmetic alone: a model from another
// process's message costs no memory. Errors: InvalidArgument (the manifest, an option out of its
// range, more than kLayoutTilesMax tiles, a matrix of 2^32 columns or more).
absl::StatusOr<uint64_t> CountTiles(const Manifest& manifest, const LayoutOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LAYOUT_TILE_COUNT_H_
