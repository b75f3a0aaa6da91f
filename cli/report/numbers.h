#ifndef LONGWAVE_CLI_REPORT_NUMBERS_H_
#define LONGWAVE_CLI_REPORT_NUMBERS_H_

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace longwave {

// Numbers of six digits, which a picture has no use for more of. null: not finite.
nlohmann::ordered_json NumbersJson(const std::vector<double>& numbers);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPORT_NUMBERS_H_
