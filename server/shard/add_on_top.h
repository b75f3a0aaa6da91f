#ifndef LONGWAVE_SERVER_SHARD_ADD_ON_TOP_H_
#define LONGWAVE_SERVER_SHARD_ADD_ON_TOP_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/wire/codec.h"
#include "common/wire/isa.h"

namespace longwave {

#if LONGWAVE_HAS_AVX512
// sums[indices[i]] += level of code i · multiple + share, in sign or int2. No index is there twice.
void AddOnTopAvx512(ValueCodec codec, int64_t multiple, uint64_t share,
                    std::span<const std::byte> codes, std::span<const uint16_t> indices,
                    uint64_t* sums);
#endif

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_ADD_ON_TOP_H_
