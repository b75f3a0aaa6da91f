#ifndef LONGWAVE_SERVER_STORE_STORE_IDENTITY_H_
#define LONGWAVE_SERVER_STORE_STORE_IDENTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace longwave {

// Whose state a file is. Every file of a folder carries it, and is refused under another one.
struct StoreIdentity {
  uint64_t run = 0;
  uint32_t shard = 0;
  uint64_t layout_hash = 0;

  bool operator==(const StoreIdentity&) const = default;
};

// FailedPrecondition, naming the first difference with what was got and wanted. `what` begins the
// sentence: "state/shard-0/log/00000001.lwlog".
absl::Status CheckIdentity(absl::string_view what, const StoreIdentity& got,
                           const StoreIdentity& wanted);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_STORE_IDENTITY_H_
