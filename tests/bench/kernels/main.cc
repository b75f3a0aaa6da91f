// bench_kernels: the speed of the kernels of every backend of this machine, each result checked.
//
//   bench_kernels [--out FILE] [--backend all|reference|cpu|cuda] [--params N] [--threads N,N…]
//                 [--seconds S] [--segment-tiles N] [--bars] [--pytorch FILE] [--quick]
//
//   --out            the table, CSV                                    [standard output]
//   --backend        whose rows; the reference's are always small      [all that are here]
//   --params         parameters, rounded down: to whole tiles; above 50 million, where the values
//                    repeat, to multiples of that                      [2^24; CUDA 2^30]
//   --threads        host threads of the CPU's rows                    [1 and all]
//   --seconds        of each row's repetitions; the bars' rows take four times that    [1]
//   --segment-tiles  of a segment, a power of two                      [256; CUDA 4096]
//   --bars           the rows that bars speak of alone: k 64 in 2 bit, and what the presets send
//   --pytorch        rows of pytorch_step.py of the same run, which become part of the table and
//                    what times_reference counts in
//   --quick          few parameters and repetitions: whether it works, not how fast
//
// `seconds` is the best repetition after a warm-up. Between repetitions of an operation run the
// copy and the passes that it is held against. Exit status: 1 if a result is wrong or a call fails,
// 2 for a wrong command line. docs/benchmarks.md, section Kernels, explains the columns.

#include <algorithm>
#include <bit>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/bench/kernels/group.h"
#include "tests/support/reference/ops.h"

namespace longwave::bench {
namespace {

constexpr uint16_t kCounts[] = {8, 16, 32, 64, 128, 256};
constexpr ValueCodec kCodecs[] = {ValueCodec::kSign, ValueCodec::kInt2, ValueCodec::kInt4,
                                  ValueCodec::kInt8, ValueCodec::kBf16, ValueCodec::kFp32};
constexpr Shape kShapes[] = {Shape::kMatrix, Shape::kFlat, Shape::kRuns};
constexpr uint64_t kReferenceParams = kParamsUnit;  // the definition is slow
constexpr double kBarPatience = 4;                  // times as long for the rows of the bars

struct Options {
  std::string out;
  std::string backend = "all";
  uint64_t params = 0;
  std::vector<int> threads;
  double seconds = 1;
  uint32_t segment_tiles = 0;
  std::string pytorch;
  bool bars = false;
  bool quick = false;
};

absl::StatusOr<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--quick" || flag == "--bars") {
      (flag == "--quick" ? options.quick : options.bars) = true;
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    bool good = !value.empty();
    if (flag == "--out") {
      options.out = value;
    } else if (flag == "--pytorch") {
      options.pytorch = value;
    } else if (flag == "--backend") {
      options.backend = value;
      good = std::set<std::string>{"all", "reference", "cpu", "cuda"}.count(value) == 1;
    } else if (flag == "--params") {
      good = absl::SimpleAtoi(value, &options.params) && options.params >= kParamsUnit &&
             options.params <= uint64_t{1} << 34;
    } else if (flag == "--seconds") {
      good = absl::SimpleAtod(value, &options.seconds) && options.seconds >= 0;
    } else if (flag == "--segment-tiles") {
      good = absl::SimpleAtoi(value, &options.segment_tiles) &&
             std::has_single_bit(options.segment_tiles) &&
             options.segment_tiles <= kLayoutSegmentTilesMax;
    } else if (flag == "--threads") {
      for (const absl::string_view count : absl::StrSplit(value, ',')) {
        good = good && absl::SimpleAtoi(count, &options.threads.emplace_back()) &&
               options.threads.back() >= 1 && options.threads.back() <= 1024;
      }
    } else {
      return absl::InvalidArgumentError(absl::StrCat("got ", flag, ", which is no option"));
    }
    if (!good) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": got \"", value, "\", wanted what the head of main.cc says"));
    }
  }
  if (options.threads.empty()) {
    options.threads = {1, std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
  }
  std::sort(options.threads.begin(), options.threads.end());
  options.threads.erase(std::unique(options.threads.begin(), options.threads.end()),
                        options.threads.end());
  return options;
}

// The row that the bars speak of in each shape: k 64 in 2 bit.
std::vector<Setting> BarSettings() {
  std::vector<Setting> settings;
  for (const Shape shape : kShapes) settings.push_back({.shape = shape});
  return settings;
}

// Every k in 2 bit, and k 64 in every codec.
std::vector<Setting> AllSettings() {
  std::vector<Setting> settings = BarSettings();
  for (const Setting& bar : BarSettings()) {
    for (const uint16_t k : kCounts) {
      if (k != bar.k) settings.push_back({.shape = bar.shape, .k = k});
    }
    for (const ValueCodec codec : kCodecs) {
      if (codec != bar.codec) settings.push_back({.shape = bar.shape, .codec = codec});
    }
  }
  return settings;
}

// A preset of configs/presets: what it sends up, of the difference of two arrays, and down.
struct Preset {
  Setting up, down;
};
constexpr Preset kPresets[] = {
    {{Shape::kMatrix, 116, ValueCodec::kSign},
     {Shape::kMatrix, 464, ValueCodec::kInt2}},  // longwave
    {{Shape::kMatrix, 58, ValueCodec::kSign}, {Shape::kMatrix, 232, ValueCodec::kInt2}},  // …_thin
    {{Shape::kFlat, 128, ValueCodec::kSign}, {Shape::kFlat, 512, ValueCodec::kInt2}},  // …_adamw
};

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {}

  absl::Status Run() {
    if (!options_.pytorch.empty()) {
      LONGWAVE_ASSIGN_OR_RETURN(rows_, ReadRows(options_.pytorch));
    }
    if (Wants("cpu")) LONGWAVE_RETURN_IF_ERROR(RunCpu());
    if (Wants("reference")) {
      LONGWAVE_RETURN_IF_ERROR(RunGroup("reference", ref::Ops(), HostRoofline(), 1,
                                        kReferenceParams, kSegmentTilesHost, /*whole=*/false));
    }
    if (Wants("cuda")) {
      const absl::StatusOr<const KernelOps*> ops = OpsFor(BackendKind::kCuda);
      if (ops.ok()) {
        // The CPU's rows are kept if a GPU has too little memory.
        const absl::Status ran =
            RunGroup("cuda", **ops, CudaRoofline(), 1, Params(uint64_t{1} << 30), kSegmentTilesCuda,
                     /*whole=*/true);
        if (!ran.ok()) {
          Relate(rows_);
          static_cast<void>(Write());
          return ran;
        }
      } else if (options_.backend == "cuda") {
        return ops.status();
      } else {
        std::fprintf(stderr, "bench_kernels: no rows of cuda: %s\n",
                     std::string(ops.status().message()).c_str());
      }
    }
    Relate(rows_);
    return Write();
  }

 private:
  static constexpr uint32_t kSegmentTilesHost = 256;
  // A segment of a million parameters takes a GPU less time than its launch.
  static constexpr uint32_t kSegmentTilesCuda = kLayoutSegmentTilesMax;

  bool Wants(const std::string& backend) const {
    return options_.backend == "all" || options_.backend == backend;
  }

  uint64_t Params(uint64_t usual) const {
    if (options_.params != 0) usual = options_.params;
    if (options_.params == 0 && options_.quick) usual = kParamsUnit * 6;
    const uint64_t unit = usual < kPeriod ? kParamsUnit : kPeriod;
    return usual / unit * unit;
  }

  absl::Status RunCpu() {
    const uint64_t params = Params(uint64_t{1} << 24);
    const std::vector<Isa> isas = SupportedIsas();
    for (const int threads : options_.threads) {
      LONGWAVE_RETURN_IF_ERROR(RunGroup("cpu", cpu::OpsOf(isas.back()), HostRoofline(), threads,
                                        params, kSegmentTilesHost, /*whole=*/true));
    }
    for (const Isa isa : isas) {
      if (isa == isas.back() || options_.bars) break;  // the last one is "cpu"
      LONGWAVE_RETURN_IF_ERROR(RunGroup(absl::StrCat("cpu-", std::string(Name(isa))),
                                        cpu::OpsOf(isa), HostRoofline(), 1, params,
                                        kSegmentTilesHost, /*whole=*/false));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Problem*> ProblemOf(uint64_t params, uint32_t segment_tiles) {
    std::unique_ptr<Problem>& problem = problems_[{params, segment_tiles}];
    if (problem == nullptr) {
      LONGWAVE_ASSIGN_OR_RETURN(problem, Problem::Create(params, segment_tiles));
    }
    return problem.get();
  }

  absl::Status RunGroup(const std::string& backend, const KernelOps& ops, const Roofline& roofline,
                        int threads, uint64_t params, uint32_t segment_tiles, bool whole) {
    if (options_.segment_tiles != 0) segment_tiles = options_.segment_tiles;
    LONGWAVE_ASSIGN_OR_RETURN(Problem * problem, ProblemOf(params, segment_tiles));
    Patience patience{.seconds = options_.seconds};
    if (options_.quick) patience = {.seconds = 0, .repetitions_min = 2};
    Patience of_bars = patience;
    of_bars.seconds *= kBarPatience;
    of_bars.repetitions_max *= static_cast<int>(kBarPatience);
    LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Group> group,
                              Group::Create(backend, &ops, &roofline, threads, problem, patience));
    std::fprintf(stderr, "bench_kernels: %s, %d threads, %llu parameters\n", backend.c_str(),
                 threads, static_cast<unsigned long long>(params));
    const auto one = Group::SignalKind::kOne;
    const std::vector<Setting> settings = options_.bars ? std::vector<Setting>{{}}
                                          : whole       ? AllSettings()
                                                        : BarSettings();
    for (const Setting& setting : settings) {
      const bool bar = setting == Setting{};
      if (bar) group->set_patience(of_bars);
      LONGWAVE_RETURN_IF_ERROR(group->Encode(setting, one));
      LONGWAVE_RETURN_IF_ERROR(group->DecodeUpdate(setting, UpdateKind::kSgd));
      group->set_patience(patience);
      if (!whole || !bar || options_.bars) continue;
      LONGWAVE_RETURN_IF_ERROR(group->Encode(setting, Group::SignalKind::kDifference));
      for (const UpdateKind update :
           {UpdateKind::kSign, UpdateKind::kNesterov, UpdateKind::kInner}) {
        LONGWAVE_RETURN_IF_ERROR(group->DecodeUpdate(setting, update));
      }
    }
    for (const Preset& preset : kPresets) {
      if (!whole) break;
      LONGWAVE_RETURN_IF_ERROR(group->Encode(preset.up, Group::SignalKind::kDifference));
      LONGWAVE_RETURN_IF_ERROR(group->DecodeUpdate(preset.down, UpdateKind::kSgd));
    }
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<Row> rows, group->Rows());
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    return absl::OkStatus();
  }

  absl::Status Write() const {
    std::string table = absl::StrCat(kHeader, "\n");
    int wrong = 0;
    for (const Row& row : rows_) {
      absl::StrAppend(&table, ToLine(row), "\n");
      if (!row.ok) ++wrong;
    }
    if (options_.out.empty()) {
      std::fputs(table.c_str(), stdout);
    } else {
      std::ofstream file(options_.out);
      file << table;
      file.close();
      if (!file) {
        return absl::InvalidArgumentError(
            absl::StrCat("--out: got ", options_.out, ", wanted a file that can be written"));
      }
    }
    if (wrong == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(wrong, " of ", rows_.size(),
                                            " rows have a wrong result: see the column check"));
  }

  const Options options_;
  std::map<std::pair<uint64_t, uint32_t>, std::unique_ptr<Problem>> problems_;
  std::vector<Row> rows_;
};

int Main(int argc, char** argv) {
  absl::StatusOr<Options> options = ParseOptions(argc, argv);
  const absl::Status status = options.ok() ? Bench(*options).Run() : options.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: bench_kernels: %s\n", std::string(status.message()).c_str());
  return options.ok() ? 1 : 2;
}

}  // namespace
}  // namespace longwave::bench

int main(int argc, char** argv) { return longwave::bench::Main(argc, argv); }
