#include "kernels/cuda/segment_tiles.h"

#include <algorithm>

#include "common/wire/elias_fano.h"

namespace longwave::cuda {

PayloadJob PayloadIn(const Transit& transit, size_t begin, size_t places_begin,
                     const PayloadLayout& layout, uint64_t draw_key) {
  const PayloadFormat& format = layout.format();
  const uint32_t count = layout.tile_count(), last = count - 1;
  const TileOffsets& first = layout.offsets(0);
  PayloadJob job = {};
  job.bytes = transit.device.as<unsigned char>() + begin;
  job.indices_begin = static_cast<uint32_t>(first.indices);
  job.values_begin = static_cast<uint32_t>(first.values);
  if (format.selection == Selection::kTopK) {
    job.indices_end =
        static_cast<uint32_t>(layout.offsets(last).indices +
                              EliasFanoBytes(layout.tile_size(last), layout.sent_count(last)));
  }
  job.tile_count = count;
  job.draw_key = draw_key;
  job.k = format.k;
  job.selection = static_cast<uint8_t>(format.selection);
  job.codec = static_cast<uint8_t>(format.codec);
  bool one_size = true;
  for (uint32_t t = 1; t < count && one_size; ++t) {
    one_size = layout.tile_size(t) == layout.tile_size(0);
  }
  if (one_size) {
    const TileOffsets& second = layout.offsets(std::min(1u, last));
    job.indices_stride = static_cast<uint32_t>(second.indices - first.indices);
    job.values_stride = static_cast<uint32_t>(second.values - first.values);
    return job;
  }
  job.places =
      reinterpret_cast<const PayloadPlace*>(transit.device.as<unsigned char>() + places_begin);
  auto* const places =
      reinterpret_cast<PayloadPlace*>(transit.host.as<unsigned char>() + places_begin);
  for (uint32_t t = 0; t < count; ++t) {
    places[t] = {static_cast<uint32_t>(layout.offsets(t).indices),
                 static_cast<uint32_t>(layout.offsets(t).values)};
  }
  return job;
}

}  // namespace longwave::cuda
