#include "common/config/removed_keys.h"

namespace longwave {
namespace {

struct Removed {
  std::string_view key;
  std::string_view value;  // empty: the key itself was removed
  std::string_view instead;
};

constexpr std::string_view kPythonTrainsIt =
    "the C++ worker trains GPTs only since 0.2; train this model with the Python package, "
    "docs/python.md";

constexpr Removed kRemoved[] = {
    {"model.kind", "resnet", kPythonTrainsIt}, {"model.kind", "vit", kPythonTrainsIt},
    {"model.kind", "file", kPythonTrainsIt},   {"model.file", "", kPythonTrainsIt},
    {"model.channels", "", kPythonTrainsIt},   {"model.image_size", "", kPythonTrainsIt},
    {"model.classes", "", kPythonTrainsIt},    {"model.patch", "", kPythonTrainsIt},
    {"data.kind", "images", kPythonTrainsIt},  {"data.crop", "", kPythonTrainsIt},
    {"data.flip", "", kPythonTrainsIt},
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
