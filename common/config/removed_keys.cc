#include "common/config/removed_keys.h"

namespace longwave {
namespace {

struct Removed {
  std::string_view key;
  std::string_view value;  // empty: the key itself was removed
  std::string_view instead;
};

constexpr std::string_view kPythonTrainsIt =
    "the C++ worker trains GPTs only; train this model with the Python package, "
    "docs/how-to/python.md";

constexpr Removed kRemoved[] = {
    {"model.kind", "resnet", kPythonTrainsIt},
    {"model.kind", "vit", kPythonTrainsIt},
    {"model.kind", "file", kPythonTrainsIt},
    {"model.file", "", kPythonTrainsIt},
    {"model.channels", "", kPythonTrainsIt},
    {"model.image_size", "", kPythonTrainsIt},
    {"model.classes", "", kPythonTrainsIt},
    {"model.patch", "", kPythonTrainsIt},
    {"data.kind", "images", kPythonTrainsIt},
    {"data.crop", "", kPythonTrainsIt},
    {"data.flip", "", kPythonTrainsIt},
    {"train.ranks", "",
     "run a Python loop under torchrun, docs/how-to/python.md#several-gpus-in-one-machine, or one "
     "longwave-worker a GPU"},
    {"train.collectives", "",
     "under torchrun the process group has its own, "
     "docs/how-to/python.md#several-gpus-in-one-machine"},
};

}  // namespace

std::string_view InsteadOfRemovedKey(std::string_view key) {
  return InsteadOfRemovedValue(key, "");
}

std::string_view InsteadOfRemovedValue(std::string_view key, std::string_view value) {
  for (const Removed& removed : kRemoved) {
    if (removed.key == key && removed.value == value) return removed.instead;
  }
  return "";
}

}  // namespace longwave
