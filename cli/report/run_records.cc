#include "cli/report/run_records.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/report/numbers.h"
#include "cli/report/round_record.h"
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
    const Json record = RecordOf(line);
    if (!record.is_object()) continue;
    for (Column& column : columns) column.values.push_back(NumberAt(record, column.name));
    const double seconds = NumberAt(record, "seconds");
    lengths.push_back(seconds - std::exchange(before, seconds));
  }
  Json rounds;
  for (const Column& column : columns)
    rounds[column.name] = NumbersJson(Thin(column.values, kRoundPoints, column.thinning));
  rounds["round_seconds"] = NumbersJson(Thin(lengths, kRoundPoints, Thinning::kMean));
  return rounds;
}

}  // namespace longwave
