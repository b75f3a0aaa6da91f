#include "server/service/metrics_file.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longwave {
namespace {

nlohmann::ordered_json NumberOrNull(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

}  // namespace

std::string MetricsLine(const RoundRecord& record) {
  const nlohmann::ordered_json line = {
      {"round", record.round},
      {"step", record.step},
      {"train_loss", NumberOrNull(record.train_loss)},
      {"validation_loss", record.validation_loss.has_value() ? NumberOrNull(*record.validation_loss)
                                                             : nlohmann::ordered_json()},
      {"tokens", record.tokens},
      {"tokens_per_second", NumberOrNull(record.tokens_per_second)},
      {"seconds", NumberOrNull(record.seconds)},
      {"bytes_pushed", record.bytes.pushed},
      {"bytes_pulled", record.bytes.pulled},
      {"payload_bytes_pushed", record.bytes.payload_pushed},
      {"payload_bytes_pulled", record.bytes.payload_pulled},
      {"replicas_equal", record.replicas_equal},
      {"state_hash", absl::StrFormat("%016x", record.state_hash)},
      {"members", record.members},
      {"compute_share", NumberOrNull(record.compute_share)},
  };
  return line.dump();
}

MetricsFile::MetricsFile(std::string path, std::ofstream out)
    : path_(std::move(path)), out_(std::move(out)) {}

absl::StatusOr<MetricsFile> MetricsFile::Open(const std::string& run_dir) {
  std::error_code error;
  std::filesystem::create_directories(run_dir, error);
  std::string path = (std::filesystem::path(run_dir) / "metrics.jsonl").string();
  std::ofstream out(path, std::ios::app);
  if (!out) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write ", path, error ? ": " + error.message() : std::string()));
  }
  return MetricsFile(std::move(path), std::move(out));
}

absl::Status MetricsFile::Append(const RoundRecord& record) {
  out_ << MetricsLine(record) << '\n' << std::flush;
  if (out_) return absl::OkStatus();
  out_.clear();  // the next line may fit again
  return absl::ResourceExhaustedError(
      absl::StrCat("round ", record.round, " could not be written to ", path_));
}

}  // namespace longwave
