#ifndef LONGWAVE_COMMON_BASE_EDIT_DISTANCE_H_
#define LONGWAVE_COMMON_BASE_EDIT_DISTANCE_H_

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace longwave {

// Levenshtein distance: letters to change, add or remove.
inline size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_EDIT_DISTANCE_H_
