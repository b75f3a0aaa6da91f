// bench_host_part: the training thread's own work for each segment of a sync on a device, without
// one.
//
//   bench_host_part [SEGMENTS]        of 256 tiles each [128]
//
// The product's pipeline and the host side of the CUDA backend run against a runtime whose calls do
// nothing, with the preset longwave's formats. What is measured is our code alone. Beside it stand
// the calls of CUDA's runtime for each segment, whose cost is the driver's (some microseconds each)
// and is not in the figures.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "common/base/status_macros.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops.h"
#include "tests/bench/clock.h"
#include "tests/bench/host_part/null_device.h"
#include "worker/sync/pipeline.h"

namespace longwave {
namespace {

constexpr PayloadFormat kUp = {Selection::kTopK, ValueCodec::kSign, 116};
constexpr PayloadFormat kDown = {Selection::kTopK, ValueCodec::kInt2, 464};
constexpr int kRounds = 20;
constexpr size_t kAtOnce = 16;  // updates that the member takes before they are applied

// A merged update of the first segment, which fits every segment.
absl::StatusOr<Buffer> MergedUpdate(const Layout& layout, const PayloadLayout& form) {
  const size_t count = layout.segments()[0].coefficient_count;
  // The segment's last block of rows is cut by its end.
  std::vector<float> signal(2 * count), momentum(count);
  for (size_t i = 0; i < signal.size(); ++i) {
    signal[i] = static_cast<float>((i * 2654435761u) % 1000003) - 500000.0f;
  }
  std::vector<std::byte> payload(form.bytes());
  EncodeReport report;
  const EncodeArgs args = {.layout = &layout,
                           .signal = {.a = signal.data()},
                           .momentum = momentum.data(),
                           .payload_layout = &form,
                           .payload = payload,
                           .report = &report};
  LONGWAVE_RETURN_IF_ERROR(cpu::OpsOf(Isa::kGeneric).encode({}, {&args, 1}));
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(form, payload));
  return Buffer(std::move(payload));
}

class Clock {
 public:
  explicit Clock(const char* what) : what_(what) {}
  template <typename F>
  absl::Status Time(const F& call) {
    driver_calls() = {};
    const double begin = SecondsOf(CLOCK_THREAD_CPUTIME_ID);
    LONGWAVE_RETURN_IF_ERROR(call());
    best_ = std::min(best_, SecondsOf(CLOCK_THREAD_CPUTIME_ID) - begin);
    calls_ = driver_calls();
    return absl::OkStatus();
  }
  void Print(size_t segments) const {
    const double n = static_cast<double>(segments);
    std::printf("%-34s %6.2f us a segment; launches %.2f, copies %.2f, events %.2f\n", what_,
                best_ / n * 1e6, static_cast<double>(calls_.launches) / n,
                static_cast<double>(calls_.copies) / n, static_cast<double>(calls_.events) / n);
  }

 private:
  const char* const what_;
  double best_ = std::numeric_limits<double>::infinity();
  DriverCalls calls_;
};

absl::Status Run(uint32_t segments) {
  // 768 columns are 12 blocks of 64 × 64.
  const int64_t rows = int64_t{segments} * 256 * 4096 / 768;
  LONGWAVE_ASSIGN_OR_RETURN(
      const Layout layout,
      Layout::Create({.tensors = {{"matrix", {rows / 64 * 64, 768}}}}, {.segment_tiles = 256}));
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(BackendKind::kCuda));
  LONGWAVE_ASSIGN_OR_RETURN(const DeviceFloats theta,
                            DeviceFloats::Create(ops, layout.parameter_count()));
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<SyncPipeline> pipeline,
      SyncPipeline::Create({.transform = Transform::kDct, .up = kUp, .beta = 0.45f}, &layout, ops,
                           {}, {.theta = theta.get()}));
  const uint32_t count =
      layout.segments()[segments - 1].tile_count == 256 ? segments : segments - 1;
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout down,
                            PayloadLayout::Create(kDown, layout.TileSizes(0)));
  LONGWAVE_ASSIGN_OR_RETURN(const Buffer merged, MergedUpdate(layout, down));
  std::vector<uint32_t> order;
  std::vector<SyncPipeline::Merged> updates;
  for (uint32_t s = 0; s < count; ++s) {
    order.push_back(s);
    // In memory of its own each, and validated, as it comes from the exchange.
    updates.push_back(
        {s, Buffer(std::vector<std::byte>(merged.bytes().begin(), merged.bytes().end())), true});
  }

  Clock encode("encode"), apply("decode, with staging"), stage("  of it staging, a copy"),
      validate("validation, on the exchange's thread");
  std::vector<std::byte> staging(kAtOnce * merged.size());
  for (int round = 0; round < kRounds; ++round) {
    LONGWAVE_RETURN_IF_ERROR(pipeline->BeginFragment(static_cast<uint32_t>(round), 0, 1e-3, order));
    std::vector<SyncPipeline::Push> pushes;
    LONGWAVE_RETURN_IF_ERROR(encode.Time([&]() -> absl::Status {
      for (const uint32_t s : order) {
        LONGWAVE_ASSIGN_OR_RETURN(pushes.emplace_back(), pipeline->Encode(s));
      }
      return absl::OkStatus();
    }));
    LONGWAVE_RETURN_IF_ERROR(apply.Time([&]() -> absl::Status {
      for (size_t s = 0; s < updates.size(); s += kAtOnce) {
        LONGWAVE_RETURN_IF_ERROR(
            pipeline->Apply(std::span(updates).subspan(s, std::min(kAtOnce, updates.size() - s))));
      }
      return absl::OkStatus();
    }));
    LONGWAVE_RETURN_IF_ERROR(validate.Time([&]() -> absl::Status {
      for (const auto& update : updates) {
        LONGWAVE_RETURN_IF_ERROR(ValidatePayload(down, update.payload.bytes()));
      }
      return absl::OkStatus();
    }));
    LONGWAVE_RETURN_IF_ERROR(stage.Time([&]() -> absl::Status {
      for (size_t s = 0; s < updates.size(); ++s) {
        std::memcpy(staging.data() + s % kAtOnce * merged.size(), updates[s].payload.bytes().data(),
                    merged.size());
      }
      return absl::OkStatus();
    }));
    // A last segment of fewer tiles has no update here.
    LONGWAVE_RETURN_IF_ERROR(pipeline->AdoptAnchor());
  }
  std::printf(
      "%u segments of 256 tiles, k 116 sign up, k 464 int2 down (%zu bytes), best of %d rounds\n",
      count, merged.size(), kRounds);
  for (const Clock* clock : {&encode, &apply, &stage, &validate}) clock->Print(count);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  uint32_t segments = 128;
  if (argc > 2 || (argc == 2 && (!absl::SimpleAtoi(argv[1], &segments) || segments < 2))) {
    std::fprintf(stderr, "error: bench_host_part: wanted at most a number of segments\n");
    return 2;
  }
  const absl::Status status = Run(segments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: bench_host_part: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) { return longwave::Main(argc, argv); }
