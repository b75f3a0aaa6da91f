#ifndef LONGWAVE_WORKER_WEIGHTS_SHALLOW_JSON_H_
#define LONGWAVE_WORKER_WEIGHTS_SHALLOW_JSON_H_

#include <nlohmann/json.hpp>
#include <utility>

namespace longwave {

// JSON of a file of another's: text or a stream. Values that are nested deeper than any that we
// read are left out, since nlohmann copies, compares and prints by recursion. Discarded: no JSON.
template <typename Input>
nlohmann::json ParseShallowJson(Input&& input) {
  constexpr int kDepthMax = 8;
  const auto is_shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth <= kDepthMax;
  };
  return nlohmann::json::parse(std::forward<Input>(input), is_shallow, /*allow_exceptions=*/false);
}

}  // namespace longwave

#endif  // LONGWAVE_WORKER_WEIGHTS_SHALLOW_JSON_H_
