#include "common/base/errors.h"
#include "worker/node/collective.h"

namespace longwave {

absl::StatusOr<std::unique_ptr<Collective>> OpenGloo(NodeLink&, absl::Duration) {
  return Unimplemented(
      "train.collectives: got gloo, wanted memory: this worker is built without gloo "
      "(libgloo-dev, with the distribution's LibTorch)");
}

}  // namespace longwave
