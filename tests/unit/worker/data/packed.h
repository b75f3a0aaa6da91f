#ifndef LONGWAVE_TESTS_UNIT_WORKER_DATA_PACKED_H_
#define LONGWAVE_TESTS_UNIT_WORKER_DATA_PACKED_H_

#include <zlib.h>
#include <zstd.h>

#include <string>

#include "common/base/check.h"

namespace longwave {

inline std::string Gzipped(std::string text) {
  z_stream stream = {};
  LONGWAVE_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) ==
                 Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  LONGWAVE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// With the check sum of its content, as the program zstd writes it.
inline std::string Zstded(const std::string& text) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_WORKER_DATA_PACKED_H_
