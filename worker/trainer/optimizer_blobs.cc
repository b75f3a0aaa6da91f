#include "worker/trainer/optimizer_blobs.h"

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/buffer.h"

namespace longwave {

absl::Status SaveOptimizer(InnerOptimizer& optimizer, const KernelOps& ops, const Exec& exec,
                           std::vector<NamedBlob>* blobs) {
  for (const StateArray& array : optimizer.State()) {
    const auto copy = std::make_shared<std::vector<std::byte>>(array.bytes);
    LONGWAVE_RETURN_IF_ERROR(ops.copy(exec, copy->data(), array.data, array.bytes));
    blobs->push_back({.name = array.name, .bytes = Buffer(std::span(*copy), copy)});
  }
  return ops.wait(exec);
}

absl::Status LoadOptimizer(std::span<const NamedBlob> blobs, const KernelOps& ops, const Exec& exec,
                           InnerOptimizer* optimizer) {
  const std::vector<StateArray> state = optimizer->State();
  std::vector<std::string> got, wanted;
  for (const NamedBlob& blob : blobs) {
    got.push_back(absl::StrCat(blob.name, " of ", blob.bytes.size(), " bytes"));
  }
  for (const StateArray& array : state) {
    wanted.push_back(absl::StrCat(array.name, " of ", array.bytes, " bytes"));
  }
  if (got != wanted) {
    return InvalidArgument("checkpoint: got the optimizer's ",
                           got.empty() ? "nothing" : absl::StrJoin(got, ", "), ", wanted ",
                           absl::StrJoin(wanted, ", "),
                           ": a worker goes on with the train.optimizer and the model that it had");
  }
  for (size_t i = 0; i < state.size(); ++i) {
    LONGWAVE_RETURN_IF_ERROR(
        ops.copy(exec, state[i].data, blobs[i].bytes.bytes().data(), state[i].bytes));
  }
  LONGWAVE_RETURN_IF_ERROR(ops.wait(exec));
  return optimizer->CheckState();
}

}  // namespace longwave
