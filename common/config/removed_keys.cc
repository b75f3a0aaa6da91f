#include "common/config/removed_keys.h"

namespace longwave {
namespace {

struct RemovedKey {
  std::string_view name;
  std::string_view instead;
};

constexpr RemovedKey kRemovedKeys[] = {
    {"train.ranks",
     "train.ranks was removed: run a Python loop under torchrun, "
     "docs/python.md#several-gpus-in-one-machine, or one longwave-worker a GPU"},
    {"train.collectives",
     "train.collectives was removed with train.ranks: under torchrun the process group has its "
     "own, docs/python.md#several-gpus-in-one-machine"},
};

}  // namespace

std::string_view InsteadOfRemovedKey(std::string_view key) {
  for (const RemovedKey& removed : kRemovedKeys) {
    if (removed.name == key) return removed.instead;
  }
  return {};
}

}  // namespace longwave
