#include "tests/bench/kernels/row.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace longwave::bench {
namespace {

// "encode" of encode_difference, "decode_update" of decode_update_sign; empty for copies and
// passes.
std::string KindOf(const std::string& bench) {
  for (const char* kind : {"encode", "decode_update"}) {
    if (absl::StartsWith(bench, kind)) return kind;
  }
  return "";
}

absl::StatusOr<Row> ParseLine(const std::string& line) {
  const std::vector<std::string> fields = absl::StrSplit(line, ',');
  Row row;
  if (fields.size() != 14 || !absl::SimpleAtoi(fields[2], &row.threads) ||
      !absl::SimpleAtoi(fields[3], &row.params) || !absl::SimpleAtoi(fields[4], &row.k) ||
      !absl::SimpleAtoi(fields[6], &row.bits) || !absl::SimpleAtod(fields[7], &row.seconds) ||
      !absl::SimpleAtod(fields[8], &row.bytes) || row.seconds <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("got \"", line, "\", wanted the 14 columns ", kHeader));
  }
  row.bench = fields[0];
  row.backend = fields[1];
  row.transform = fields[5];
  row.ok = fields[13] == "ok";
  return row;
}

}  // namespace

std::string ToLine(const Row& row) {
  return absl::StrFormat("%s,%s,%d,%d,%d,%s,%d,%.6e,%.0f,%.4g,%.4g,%.4e,%.4g,%s", row.bench,
                         row.backend, row.threads, row.params, row.k, row.transform, row.bits,
                         row.seconds, row.bytes, row.gb_per_s(), row.percent_of_copy,
                         row.params_per_s(), row.times_reference, row.ok ? "ok" : "FAILED");
}

absl::StatusOr<std::vector<Row>> ReadRows(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != kHeader) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": got a first line \"", line, "\", wanted ", kHeader));
  }
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    absl::StatusOr<Row> row = ParseLine(line);
    if (!row.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", row.status().message()));
    }
    rows.push_back(*std::move(row));
  }
  return rows;
}

void Relate(std::vector<Row>& rows) {
  for (Row& row : rows) {
    const std::string kind = KindOf(row.bench);
    const Row* plain = nullptr;
    for (const Row& other : rows) {
      if (other.bench == "copy" && other.backend == row.backend && other.threads == row.threads) {
        row.percent_of_copy = 100 * row.gb_per_s() / other.gb_per_s();
      }
      const bool is_plain = !kind.empty() && other.bench == kind && other.k == 64 &&
                            other.bits == 2 && other.transform == row.transform;
      if (is_plain && other.backend == "pytorch") plain = &other;
      if (is_plain && other.backend == "reference" && plain == nullptr) plain = &other;
    }
    if (plain != nullptr) row.times_reference = row.params_per_s() / plain->params_per_s();
  }
}

}  // namespace longwave::bench
