#ifndef LONGWAVE_CLI_REPORT_ROUND_RECORD_H_
#define LONGWAVE_CLI_REPORT_ROUND_RECORD_H_

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace longwave {

// The round's record in a line of metrics.jsonl; no object where the line is torn or foreign.
inline nlohmann::ordered_json RecordOf(const std::string& line) {
  auto record = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool is_record =
      record.is_object() && record.contains("round") && record["round"].is_number_unsigned();
  return is_record ? record : nlohmann::ordered_json();
}

// NaN: the record has no such number.
inline double NumberAt(const nlohmann::ordered_json& record, const char* key) {
  const auto member = record.find(key);
  return member != record.end() && member->is_number() ? member->get<double>()
                                                       : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPORT_ROUND_RECORD_H_
