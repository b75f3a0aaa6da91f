#include "cli/report/run_records.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/report/numbers.h"
#include "cli/report/round_record.h"

namespace longwave {

RoundSeries::RoundSeries()
    : columns_({{"step", Thinning::kLast, {}},
                {"tokens", Thinning::kLast, {}},
                {"seconds", Thinning::kLast, {}},
                {"bytes_pushed", Thinning::kLast, {}},
                {"bytes_pulled", Thinning::kLast, {}},
                {"members", Thinning::kLast, {}},
                {"train_loss", Thinning::kMean, {}},
                {"validation_loss", Thinning::kMean, {}},
                {"compute_share", Thinning::kMean, {}},
                {"round", Thinning::kLast, {}},
                {"round_seconds", Thinning::kMean, {}}}) {}

void RoundSeries::Add(const nlohmann::ordered_json& record) {
  for (Column& column : columns_) column.values.push_back(NumberAt(record, column.name));
  const double seconds = NumberAt(record, "seconds");
  columns_.back().values.back() = seconds - std::exchange(seconds_, seconds);
}

nlohmann::ordered_json RoundSeries::From(size_t first) const {
  nlohmann::ordered_json rounds;
  for (const Column& column : columns_) {
    const std::vector<double> values(column.values.begin() + static_cast<ptrdiff_t>(first),
                                     column.values.end());
    rounds[column.name] = NumbersJson(Thin(values, kRoundPoints, column.thinning));
  }
  return rounds;
}

nlohmann::ordered_json RoundsOf(const std::string& metrics_file) {
  RoundSeries rounds;
  std::ifstream file(metrics_file, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::ordered_json record = RecordOf(line);
    if (record.is_object()) rounds.Add(record);
  }
  return rounds.From(0);
}

}  // namespace longwave
