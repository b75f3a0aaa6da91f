#include "server/service/metrics_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/errors.h"

namespace longwave {
namespace {

nlohmann::ordered_json NumberOrNull(std::optional<double> value) {
  if (!value.has_value() || !std::isfinite(*value)) return nullptr;
  return *value;
}

}  // namespace

std::string MetricsLine(const RoundRecord& record) {
  const nlohmann::ordered_json line = {
      {"round", record.round},
      {"step", record.step},
      {"train_loss", NumberOrNull(record.train_loss)},
      {"validation_loss", NumberOrNull(record.validation_loss)},
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
    return PermissionDenied("cannot write ", path, error ? ": " + error.message() : std::string());
  }
  return MetricsFile(std::move(path), std::move(out));
}

absl::StatusOr<MetricsFile> MetricsFile::Continue(const std::string& run_dir,
                                                  uint32_t known_rounds) {
  const std::string path = (std::filesystem::path(run_dir) / "metrics.jsonl").string();
  uint32_t next_round = 0;
  uintmax_t whole_bytes = 0;
  {
    std::ifstream in(path, std::ios::binary);
    for (std::string line; std::getline(in, line) && !in.eof(); whole_bytes += line.size() + 1) {
      const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object()) continue;
      const auto round = json.find("round");
      if (round == json.end() || !round->is_number_unsigned()) continue;
      next_round = static_cast<uint32_t>(
          std::min<uint64_t>(round->get<uint64_t>(), std::max(known_rounds, 1u) - 1) + 1);
    }
  }
  std::error_code error;
  if (std::filesystem::file_size(path, error) > whole_bytes && !error) {
    std::filesystem::resize_file(path, whole_bytes, error);
    if (error) return PermissionDenied("cannot write ", path, ": ", error.message());
  }
  absl::StatusOr<MetricsFile> file = Open(run_dir);
  if (file.ok()) file->next_round_ = std::min(next_round, known_rounds);
  return file;
}

absl::Status MetricsFile::Append(const RoundRecord& record) {
  std::error_code error;
  const uintmax_t whole_bytes = std::filesystem::file_size(path_, error);
  out_ << MetricsLine(record) << '\n' << std::flush;
  if (out_) {
    next_round_ = record.round + 1;
    return absl::OkStatus();
  }
  // Part of the line may be in the file, and in the stream's buffer.
  out_.close();
  if (!error) std::filesystem::resize_file(path_, whole_bytes, error);
  out_.clear();
  out_.open(path_, std::ios::app);
  return ResourceExhausted("round ", record.round, " to ", path_);
}

}  // namespace longwave
