#include "tests/bench/shard/bench.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/descriptor.h"
#include "common/base/status_macros.h"
#include "tests/bench/shard/figures.h"
#include "tests/bench/shard/machine.h"
#include "tests/bench/shard/measurement.h"

namespace longwave {
namespace {

constexpr std::array<uint32_t, 6> kBytesSweep = {2, 4, 8, 16, 32, 64};

ProcessorPlan Place(const BenchShardOptions& options) {
  ProcessorPlan placement;
  const std::vector<int> all = AllowedProcessors();
  const size_t for_shards = std::min<size_t>(options.shards, all.size() > 1 ? all.size() - 1 : 1);
  if (options.no_pin || all.size() <= for_shards) return placement;
  const auto split = all.begin() + static_cast<std::ptrdiff_t>(for_shards);
  placement.shards.assign(all.begin(), split);
  placement.others.assign(split, all.end());
  return placement;
}

absl::Status Bench(BenchShardOptions options) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError("cannot find this program by /proc/self/exe");
  if (options.server.empty()) {
    options.server = (program.parent_path() / "longwave-server").string();
  }
  std::vector<uint32_t> sweep = options.sweep;
  if (options.check_bytes) sweep.assign(kBytesSweep.begin(), kBytesSweep.end());
  std::sort(sweep.begin(), sweep.end());

  RaiseFileLimit();
  const ProcessorPlan placement = Place(options);
  const ScopedProcessors bound(placement.others);
  std::vector<ShardFigures> runs;
  for (const uint32_t workers : sweep) {
    LONGWAVE_ASSIGN_OR_RETURN(ShardFigures figures, MeasureShards(options, placement, workers));
    std::cout << DescribeFigures(figures) << std::flush;
    runs.push_back(std::move(figures));
  }
  std::cout << DescribeBars(options, runs);
  for (const ShardFigures& run : runs) {
    if (!run.correct()) {
      return absl::DataLossError(
          absl::StrCat("the results with ", run.workers, " workers are not right, see above"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int RunBenchShard(const BenchShardOptions& options) {
  BenchShardOptions settled = options;
  if (settled.check_bytes && settled.rounds == 0) settled.rounds = 2;
  const absl::Status status = Bench(settled);
  if (status.ok()) return 0;
  std::cerr << "error: " << status.message() << std::endl;
  return 1;
}

}  // namespace longwave
