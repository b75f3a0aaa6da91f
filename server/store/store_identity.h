#ifndef LONGWAVE_SERVER_STORE_STORE_IDENTITY_H_
#define LONGWAVE_SERVER_STORE_STORE_IDENTITY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/fields.h"

namespace longwave {

// The owner of a file. Every file of a folder carries it, and other owners' files are errors.
struct StoreIdentity {
  uint64_t run = 0;
  uint32_t shard = 0;
  uint64_t layout_hash = 0;
  LONGWAVE_FIELDS(run, layout_hash, shard)

  bool operator==(const StoreIdentity&) const = default;
};

// FailedPrecondition names the first difference with got and wanted values. `what` begins the
// sentence: "state/shard-0/log/00000001.lwlog".
absl::Status CheckIdentity(absl::string_view what, const StoreIdentity& got,
                           const StoreIdentity& wanted);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_STORE_IDENTITY_H_
