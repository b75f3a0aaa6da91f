#ifndef LONGWAVE_WORKER_DATA_UNPACK_H_
#define LONGWAVE_WORKER_DATA_UNPACK_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace longwave {

// The content of a file that gzip (RFC 1952) or zstd (RFC 8878) has packed, of all its members or
// frames one after the other; another file's content as it is. DataLoss: damaged, or cut short.
// ResourceExhausted: more than `bytes_max`. Errors do not name the file.
absl::StatusOr<std::string> Unpacked(std::string file, uint64_t bytes_max);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_UNPACK_H_
