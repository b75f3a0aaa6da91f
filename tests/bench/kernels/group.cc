#include "tests/bench/kernels/group.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/status_macros.h"
#include "tests/bench/clock.h"
#include "tests/bench/kernels/encode_check.h"

namespace longwave::bench {
namespace {

constexpr float kPassFactor = 0.95f;
constexpr float kScaleFactor = 0.9999f;
constexpr double kReferenceTolerance = 1e-6;
constexpr uint64_t kSampled = 4096;  // elements at either end that a pass's result is checked at

constexpr const char* kRooflineNames[] = {"copy", "pass", "read_write"};
// Arrays read and written.
constexpr uint64_t kRooflineArrays[] = {2, 3, 2};

const char* NameOf(UpdateKind update) {
  switch (update) {
    case UpdateKind::kSgd:
      return "decode_update";
    case UpdateKind::kSign:
      return "decode_update_sign";
    case UpdateKind::kNesterov:
      return "decode_update_nesterov";
    case UpdateKind::kInner:
      return "decode_update_inner";
    case UpdateKind::kLocal:
      return "decode_update_local";
  }
  return "unknown";
}

// Bytes a parameter that an update reads and writes: θ; with Nesterov also the velocity; for the
// inner optimizer the gradient, which is only written.
uint64_t UpdateBytes(UpdateKind update) {
  if (update == UpdateKind::kNesterov) return 16;
  return update == UpdateKind::kInner ? 4 : 8;
}

}  // namespace

Group::Group(std::string backend, const KernelOps* ops, const Roofline* roofline, int threads,
             Problem* problem, Patience patience)
    : backend_(std::move(backend)),
      ops_(ops),
      roofline_(roofline),
      exec_{.threads = threads},
      problem_(problem),
      patience_(patience) {}

Group::~Group() {
  for (float* array : arrays_) {
    if (array != nullptr) ops_->release(array);
  }
}

absl::StatusOr<std::unique_ptr<Group>> Group::Create(std::string backend, const KernelOps* ops,
                                                     const Roofline* roofline, int threads,
                                                     Problem* problem, Patience patience) {
  std::unique_ptr<Group> group(
      new Group(std::move(backend), ops, roofline, threads, problem, patience));
  const uint64_t bytes = problem->params() * sizeof(float);
  for (float*& array : group->arrays_) {
    LONGWAVE_ASSIGN_OR_RETURN(void* memory, ops->allocate(bytes));
    array = static_cast<float*>(memory);
  }
  LONGWAVE_RETURN_IF_ERROR(group->Upload(kA, problem->a()));
  LONGWAVE_RETURN_IF_ERROR(group->Upload(kB, problem->b()));
  return group;
}

absl::Status Group::Upload(ArrayIndex array, const std::vector<float>& period) {
  for (uint64_t at = 0; at < problem_->params(); at += period.size()) {
    LONGWAVE_RETURN_IF_ERROR(
        ops_->copy(exec_, arrays_[array] + at, period.data(), period.size() * sizeof(float)));
  }
  return ops_->wait(exec_);
}

absl::StatusOr<std::vector<float>> Group::Download(const float* from, uint64_t count) const {
  std::vector<float> values(count);
  LONGWAVE_RETURN_IF_ERROR(ops_->copy(exec_, values.data(), from, count * sizeof(float)));
  LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
  return values;
}

Row Group::MakeRow(const std::string& bench, const Setting* setting) const {
  Row row{.bench = bench, .backend = backend_};
  row.threads = exec_.threads;
  row.params = problem_->params();
  if (setting != nullptr) {
    row.k = setting->k;
    row.transform = Name(setting->shape);
    row.bits = ValueBits(setting->codec);
  }
  return row;
}

absl::Status Group::Time(const std::function<absl::Status()>& operation, std::vector<double>& best,
                         size_t piece) {
  const double begin = SecondsOf(CLOCK_MONOTONIC);
  LONGWAVE_RETURN_IF_ERROR(operation());
  LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
  best[piece] = std::min(best[piece], SecondsOf(CLOCK_MONOTONIC) - begin);
  return absl::OkStatus();
}

absl::Status Group::RunRoofline(RooflineIndex index, uint64_t begin, uint64_t end) {
  float* const scratch = arrays_[kScratch] + begin;
  const float* const a = arrays_[kA] + begin;
  switch (index) {
    case kCopy:
      return roofline_->copy(exec_, scratch, a, end - begin);
    case kPass:
      return roofline_->pass(exec_, scratch, a, kPassFactor, end - begin);
    default:
      return roofline_->read_write(exec_, scratch, kScaleFactor, end - begin);
  }
}

absl::StatusOr<double> Group::Best(
    const Layout& layout, const std::function<absl::Status(uint32_t, uint32_t)>& operation) {
  const uint32_t segments = static_cast<uint32_t>(layout.segments().size());
  const uint32_t stride = ops_->on_device ? segments : 1;
  const uint32_t pieces = segments / stride;
  // Coefficients before a segment; as many parameters, since all tiles are full.
  const auto at = [&](uint32_t segment) {
    return segment < segments ? layout.segments()[segment].coefficient_begin : problem_->params();
  };
  constexpr double kNever = std::numeric_limits<double>::infinity();
  for (std::vector<double>& best : roofline_best_) best.resize(pieces, kNever);
  std::vector<double> best(pieces, kNever);
  LONGWAVE_RETURN_IF_ERROR(operation(0, segments));  // warm-up
  const double begin = SecondsOf(CLOCK_MONOTONIC);
  for (int i = 0; i < patience_.repetitions_max; ++i) {
    const double spent = SecondsOf(CLOCK_MONOTONIC) - begin;
    if (i >= patience_.repetitions_min && spent >= patience_.seconds) break;
    for (int r = 0; r < kRooflines; ++r) {
      for (uint32_t p = 0; p < pieces; ++p) {
        LONGWAVE_RETURN_IF_ERROR(Time(
            [&] {
              return RunRoofline(static_cast<RooflineIndex>(r), at(p * stride),
                                 at((p + 1) * stride));
            },
            roofline_best_[r], p));
      }
    }
    for (uint32_t p = 0; p < pieces; ++p) {
      LONGWAVE_RETURN_IF_ERROR(
          Time([&] { return operation(p * stride, (p + 1) * stride); }, best, p));
    }
  }
  return std::accumulate(best.begin(), best.end(), 0.0);
}

absl::Status Group::Encode(const Setting& setting, SignalKind signal) {
  const uint64_t n = problem_->params();
  const bool difference = signal == SignalKind::kDifference;
  const std::string bench = difference ? "encode_difference" : "encode";
  // The same signal here and there.
  const Arrays host = {.a = problem_->a().data(), .b = difference ? problem_->b().data() : nullptr};
  const Arrays here = {
      .a = arrays_[kA], .b = difference ? arrays_[kB] : nullptr, .momentum = arrays_[kMomentum]};
  LONGWAVE_ASSIGN_OR_RETURN(Payloads payloads, problem_->MakePayloads(setting, *ops_));
  const Layout& layout = problem_->layout(setting.shape);
  std::vector<EncodeReport> reports;
  const auto encode = [&](uint32_t begin, uint32_t end) {
    return EncodeSegments(*ops_, exec_, layout, TransformOf(setting.shape), here, payloads, reports,
                          begin, end);
  };

  LONGWAVE_RETURN_IF_ERROR(Upload(kMomentum, problem_->momentum()));
  LONGWAVE_RETURN_IF_ERROR(encode(0, static_cast<uint32_t>(layout.segments().size())));
  Row row = MakeRow(bench, &setting);
  row.ok = std::all_of(reports.begin(), reports.end(), [](const EncodeReport& report) {
    return report.nonfinite_tile == EncodeReport::kNone;
  });
  for (const uint32_t tile : TilesChecked(layout)) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> residual,
                              Download(arrays_[kMomentum] + layout.tiles()[tile].coefficient_offset,
                                       layout.tiles()[tile].size()));
    row.ok = row.ok && TileIsRight(*problem_, setting, tile, host, payloads, residual);
  }

  // Signal read, m̂ read and written, payload written.
  row.bytes = static_cast<double>(n * (8 + (difference ? 8 : 4)) + payloads.total_bytes);
  LONGWAVE_ASSIGN_OR_RETURN(row.seconds, Best(layout, encode));
  rows_.push_back(std::move(row));
  return absl::OkStatus();
}

absl::Status Group::DecodeUpdate(const Setting& setting, UpdateKind update) {
  const uint64_t n = problem_->params();
  const Layout& layout = problem_->layout(setting.shape);
  LONGWAVE_ASSIGN_OR_RETURN(const Payloads* payloads, problem_->Encoded(setting));
  const Arrays here = {
      .theta = arrays_[kTheta], .velocity = arrays_[kVelocity], .gradient = arrays_[kGradient]};
  const auto decode = [&](uint32_t begin, uint32_t end) {
    return DecodeSegments(*ops_, exec_, layout, TransformOf(setting.shape), update, here, *payloads,
                          begin, end);
  };

  const std::vector<float> zeros(update == UpdateKind::kNesterov ? problem_->period() : 0);
  LONGWAVE_RETURN_IF_ERROR(Upload(kTheta, problem_->theta()));
  if (!zeros.empty()) {
    LONGWAVE_RETURN_IF_ERROR(Upload(kVelocity, zeros));
  }
  LONGWAVE_RETURN_IF_ERROR(decode(0, static_cast<uint32_t>(layout.segments().size())));
  Row row = MakeRow(NameOf(update), &setting);
  LONGWAVE_ASSIGN_OR_RETURN(row.ok, UpdateIsRight(setting, update));

  row.bytes = static_cast<double>(n * UpdateBytes(update) + payloads->total_bytes);
  LONGWAVE_ASSIGN_OR_RETURN(row.seconds, Best(layout, decode));
  rows_.push_back(std::move(row));
  return absl::OkStatus();
}

absl::StatusOr<bool> Group::UpdateIsRight(const Setting& setting, UpdateKind update) {
  const float* array = arrays_[update == UpdateKind::kInner ? kGradient : kTheta];
  if (ops_->name == "reference") {
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> expected,
                              problem_->UpdatedArray(setting, update));
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> got, Download(array, expected.size()));
    double distance = 0, norm = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      distance += (double{got[i]} - expected[i]) * (double{got[i]} - expected[i]);
      norm += double{expected[i]} * expected[i];
    }
    return norm > 0 && std::sqrt(distance) <= kReferenceTolerance * std::sqrt(norm);
  }
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<uint64_t>* expected,
                            problem_->Updated(setting, update));
  std::vector<uint64_t> hashes(expected->size());
  LONGWAVE_RETURN_IF_ERROR(ops_->hash(
      exec_, {.layout = &problem_->layout(setting.shape), .theta = array, .hashes = hashes}));
  return hashes == *expected;
}

absl::StatusOr<bool> Group::RooflineIsRight(RooflineIndex index) {
  const uint64_t n = problem_->params();
  bool right = true;
  for (const uint64_t begin : {uint64_t{0}, n - kSampled}) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> a, Download(arrays_[kA] + begin, kSampled));
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> before,
                              Download(arrays_[kScratch] + begin, kSampled));
    LONGWAVE_RETURN_IF_ERROR(RunRoofline(index, 0, n));
    LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> after,
                              Download(arrays_[kScratch] + begin, kSampled));
    for (uint64_t i = 0; i < kSampled; ++i) {
      const double expected = index == kCopy   ? a[i]
                              : index == kPass ? double{kPassFactor} * before[i] + a[i]
                                               : double{kScaleFactor} * before[i];
      const double size = std::abs(before[i]) + std::abs(a[i]);
      right = right && std::abs(after[i] - expected) <= 1e-6 * size;
    }
  }
  return right;
}

absl::StatusOr<std::vector<Row>> Group::Rows() {
  std::vector<Row> rows;
  for (int r = 0; r < kRooflines; ++r) {
    Row row = MakeRow(kRooflineNames[r], nullptr);
    row.seconds = std::accumulate(roofline_best_[r].begin(), roofline_best_[r].end(), 0.0);
    row.bytes = static_cast<double>(kRooflineArrays[r] * problem_->params() * sizeof(float));
    LONGWAVE_ASSIGN_OR_RETURN(row.ok, RooflineIsRight(static_cast<RooflineIndex>(r)));
    rows.push_back(std::move(row));
  }
  rows.insert(rows.end(), rows_.begin(), rows_.end());
  return rows;
}

}  // namespace longwave::bench
