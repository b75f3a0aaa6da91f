#include "cli/report/run_records.h"

#include <array>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/report/numbers.h"
#include "cli/report/thin.h"

namespace longwave {
namespace {

using Json = nlohmann::ordered_json;

struct Column {
  const char* name;
  Thinning thinning;
  std::vector<double> values;
};

}  // namespace

Json RoundsOf(const std::string& metrics_file) {
  std::array<Column, 10> columns = {{{"step", Thinning::kLast, {}},
                                     {"tokens", Thinning::kLast, {}},
                                     {"seconds", Thinning::kLast, {}},
                                     {"bytes_pushed", Thinning::kLast, {}},
                                     {"bytes_pulled", Thinning::kLast, {}},
                                     {"members", Thinning::kLast, {}},
                                     {"train_loss", Thinning::kMean, {}},
                                     {"validation_loss", Thinning::kMean, {}},
                                     {"compute_share", Thinning::kMean, {}},
                                     {"round", Thinning::kLast, {}}}};
  std::vector<double> lengths;
  double before = 0;
  std::ifstream file(metrics_file, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("round")) continue;
    for (Column& column : columns) {
      const auto value = record.find(column.name);
      const bool is_known = value != record.end() && value->is_number();
      column.values.push_back(is_known ? value->get<double>()
                                       : std::numeric_limits<double>::quiet_NaN());
    }
    const double seconds = columns[2].values.back();
    lengths.push_back(seconds - before);
    before = seconds;
  }
  Json rounds;
  for (const Column& column : columns)
    rounds[column.name] = NumbersJson(Thin(column.values, kRoundPoints, column.thinning));
  rounds["round_seconds"] = NumbersJson(Thin(lengths, kRoundPoints, Thinning::kMean));
  return rounds;
}

}  // namespace longwave
