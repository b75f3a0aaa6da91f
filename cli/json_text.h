#ifndef LONGWAVE_CLI_JSON_TEXT_H_
#define LONGWAVE_CLI_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace longwave {

// JSON in ASCII: a sentence may quote invalid UTF-8 or terminal controls, which are escaped.
// Numbers that are not finite, which JSON lacks, are null.
inline std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/true,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

inline nlohmann::ordered_json NumberOrNull(std::optional<double> number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

// The text of an object's member; "" where there is no such text.
inline std::string TextAt(const nlohmann::json& json, const char* key) {
  const auto member = json.find(key);
  return member != json.end() && member->is_string() ? member->get<std::string>() : "";
}

}  // namespace longwave

#endif  // LONGWAVE_CLI_JSON_TEXT_H_
