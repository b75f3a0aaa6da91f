#include "common/config/config_keys.h"

namespace longwave {

Binding BindingOf(std::string_view name) {
  for (const std::string_view own :
       {"run.preset", "run.name", "run.workers", "run.validate_every", "run.validation_batches",
        "data.path", "data.validation_path", "train.micro_batches", "train.activation_checkpoints",
        "train.threads", "train.device", "train.autocast", "sync.target_share", "sync.up.codec"}) {
    if (name == own) return Binding::kNone;
  }
  if (name == "sync.up.k") return Binding::kEqualDrawn;
  if (name == "train.batch") return Binding::kAtMost;
  if (name == "sync.inner_steps_min" || name == "sync.inner_steps_max") return Binding::kEqualAuto;
  const std::string_view section = name.substr(0, name.find('.'));
  const bool is_own = section == "cluster" || section == "metrics" || section == "security";
  return is_own ? Binding::kNone : Binding::kEqual;
}

}  // namespace longwave
