#include "server/store/store_identity.h"

#include "absl/strings/str_format.h"
#include "common/base/errors.h"

namespace longwave {

absl::Status CheckIdentity(absl::string_view what, const StoreIdentity& got,
                           const StoreIdentity& wanted) {
  if (got.run != wanted.run) {
    return FailedPrecondition(absl::StrFormat("%s: belongs to another run: got %016x, wanted %016x",
                                              what, got.run, wanted.run));
  }
  if (got.shard != wanted.shard) {
    return FailedPrecondition(what, ": belongs to another shard: got ", got.shard, ", wanted ",
                              wanted.shard);
  }
  if (got.layout_hash != wanted.layout_hash) {
    return FailedPrecondition(
        absl::StrFormat("%s: belongs to another layout: got hash %016x, wanted %016x", what,
                        got.layout_hash, wanted.layout_hash));
  }
  return absl::OkStatus();
}

}  // namespace longwave
