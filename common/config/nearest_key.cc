#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/edit_distance.h"
#include "common/config/config_keys.h"

namespace longwave {
namespace {

std::string_view LastWord(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// Matches lr to learning_rate, warmup to warmup_steps, and batch_size, a common name, to batch.
bool IsShortFor(std::string_view name, std::string_view word) {
  std::string initials;
  for (size_t i = 0; i < word.size(); ++i) {
    if (i == 0 || word[i - 1] == '_') initials += word[i];
  }
  constexpr size_t kPartBytesMin = 4;  // shorter prefixes such as n match too much
  const auto begins = [](std::string_view part, std::string_view whole) {
    return part.size() >= kPartBytesMin && whole.size() > part.size() &&
           whole.substr(0, part.size()) == part && whole[part.size()] == '_';
  };
  return (name.size() > 1 && name == initials) || begins(name, word) || begins(word, name);
}

// Keys and their sections, each once, in the table's order.
std::vector<std::string> KeysAndSections() {
  std::vector<std::string> names;
  for (const ConfigKey& key : ConfigKeys()) {
    for (size_t dot = key.name.find('.'); dot != std::string::npos;
         dot = key.name.find('.', dot + 1)) {
      std::string section = key.name.substr(0, dot);
      if (std::ranges::find(names, section) == names.end()) {
        names.push_back(std::move(section));
      }
    }
    names.push_back(key.name);
  }
  return names;
}

}  // namespace

std::string NearestConfigKey(std::string_view name) {
  constexpr size_t kNameBytesMax = 100;  // longer names are no typing errors
  const std::string_view last = LastWord(name);
  if (last.empty() || name.size() > kNameBytesMax) return "";
  // At least one letter of the last word is right; two or a third of its letters may be wrong.
  const size_t distance_max = std::min(last.size() - 1, std::max<size_t>(2, last.size() / 3));
  std::string nearest;
  std::pair<size_t, size_t> nearest_distance = {distance_max + 1, 0};
  for (std::string& candidate : KeysAndSections()) {
    // A right word in the wrong section counts as near: sync.kk means sync.up.k.
    const size_t whole = EditDistance(name, candidate);
    const std::string_view word = LastWord(candidate);
    const size_t near = std::min(whole, EditDistance(last, word));
    const std::pair distance = {IsShortFor(last, word) ? 0 : near, whole};
    if (distance >= nearest_distance) continue;
    nearest_distance = distance;
    nearest = std::move(candidate);
  }
  return nearest;
}

}  // namespace longwave
