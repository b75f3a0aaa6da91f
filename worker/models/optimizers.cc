#include "worker/models/optimizers.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/layout/layout.h"
#include "worker/models/adamw.h"
#include "worker/models/muon.h"

namespace longwave {
namespace {

bool IsMatrix(const TensorSpec& tensor) { return tensor.shape.size() >= 2; }

// Embeddings and heads are tables of vectors, for which Muon is unsuitable.
bool IsHidden(const TensorSpec& tensor) {
  for (const absl::string_view part : absl::StrSplit(tensor.name, absl::ByAnyChar("._"))) {
    for (const char* const table : {"emb", "head", "pos", "wte", "wpe"}) {
      if (absl::StartsWith(part, table)) return false;
    }
  }
  return IsMatrix(tensor);
}

template <typename Optimizer>
absl::StatusOr<std::unique_ptr<InnerOptimizer>> Owned(absl::StatusOr<Optimizer> optimizer) {
  if (!optimizer.ok()) return optimizer.status();
  return std::make_unique<Optimizer>(*std::move(optimizer));
}

}  // namespace

absl::StatusOr<std::unique_ptr<InnerOptimizer>> MakeOptimizer(const TrainSection& train,
                                                              const Manifest& manifest,
                                                              const KernelOps* ops, Exec exec) {
  // The place of tensors in the flat array does not depend on the tiling.
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(manifest, LayoutOptions{}));
  const bool is_muon = train.optimizer == "muon";
  std::vector<MuonMatrix> matrices;
  ParameterRange vectors{.begin = 0, .count = layout.parameter_count()};
  std::vector<ParameterRange> ranges;  // contiguous decaying parameters are one range
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorSpec& tensor = manifest.tensors[i];
    if (!IsMatrix(tensor)) continue;
    const auto count = static_cast<uint64_t>(ElementCount(tensor));
    const uint64_t offset = layout.flat_offset(i);
    vectors = {.begin = offset + count, .count = layout.parameter_count() - offset - count};
    if (is_muon && IsHidden(tensor)) {
      matrices.push_back({offset, tensor.shape[0], ElementCount(tensor) / tensor.shape[0]});
    } else if (!ranges.empty() && ranges.back().begin + ranges.back().count == offset) {
      ranges.back().count += count;
    } else {
      ranges.push_back({.begin = offset, .count = count, .decays = true});
    }
  }
  ranges.push_back(vectors);
  if (train.optimizer == "sgd")
    return Owned(Sgd::Create(train.momentum, train.weight_decay, ops, exec, std::move(ranges)));
  absl::StatusOr<AdamW> adamw = AdamW::Create({.beta1 = train.beta1,
                                               .beta2 = train.beta2,
                                               .epsilon = train.epsilon,
                                               .weight_decay = train.weight_decay},
                                              ops, exec, std::move(ranges));
  if (!is_muon || !adamw.ok()) return Owned(std::move(adamw));
  return Owned(Muon::Create({.momentum = train.momentum,
                             .weight_decay = train.weight_decay,
                             .bf16 = ops->on_device && train.autocast == "bf16"},
                            ops, std::move(matrices), *std::move(adamw)));
}

}  // namespace longwave
