#include "tests/bench/hold/worker.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "kernels/ops.h"
#include "tests/bench/clock.h"
#include "worker/member/member.h"
#include "worker/member/member_place.h"

namespace longwave {
namespace {

constexpr int64_t kWidth = 768;

// A table holds plain functions, so the clock is a global.
const KernelOps* timed_ops = nullptr;
double kernel_seconds = 0;

template <typename Call>
absl::Status Timed(const Call& call) {
  const double begin = SecondsOf(CLOCK_MONOTONIC);
  absl::Status done = call();
  kernel_seconds += SecondsOf(CLOCK_MONOTONIC) - begin;
  return done;
}

// The CPU's operations with a clock around those that compute. Copies of whole arrays are not
// among them: a checkpoint's copy holds the loop.
KernelOps WithClock(const KernelOps* ops) {
  timed_ops = ops;
  KernelOps clocked = *ops;
  clocked.encode = [](const Exec& exec, std::span<const EncodeArgs> args) {
    return Timed([&] { return timed_ops->encode(exec, args); });
  };
  clocked.finish = [](const Exec& exec, uint32_t segment) {
    return Timed([&] { return timed_ops->finish(exec, segment); });
  };
  clocked.restore = [](const Exec& exec, const RestoreArgs& args) {
    return Timed([&] { return timed_ops->restore(exec, args); });
  };
  clocked.decode_update = [](const Exec& exec, std::span<const DecodeUpdateArgs> args) {
    return Timed([&] { return timed_ops->decode_update(exec, args); });
  };
  clocked.hash = [](const Exec& exec, const HashArgs& args) {
    return Timed([&] { return timed_ops->hash(exec, args); });
  };
  clocked.blend = [](const Exec& exec, const BlendArgs& args) {
    return Timed([&] { return timed_ops->blend(exec, args); });
  };
  return clocked;
}

// An optimizer's arrays, which a checkpoint has.
class PausedLoop final : public TrainingLoop {
 public:
  PausedLoop(uint32_t arrays, uint64_t parameters)
      : arrays_(arrays, std::vector<float>(parameters, 1.0f)) {}

  absl::Status Save(std::vector<NamedBlob>* blobs) override {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      // The arrays outlive the blob, as a loop's own do.
      blobs->push_back({.name = absl::StrCat("moment-", i),
                        .bytes = Buffer(std::as_bytes(std::span(arrays_[i])), nullptr)});
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<std::vector<float>> arrays_;
};

// Changes a part of theta, so that there is something to send, and pauses.
void InnerStep(std::span<float> theta, uint64_t step, uint64_t inner_steps, double end) {
  const uint64_t part = std::max<uint64_t>(theta.size() / inner_steps, 1);
  const uint64_t begin = std::min<uint64_t>(step % inner_steps * part, theta.size());
  uint32_t word = static_cast<uint32_t>(step) * 2654435761u + 1;
  for (float& value : theta.subspan(begin, std::min<uint64_t>(part, theta.size() - begin))) {
    word = word * 1664525u + 1013904223u;
    value += 1e-3f * (static_cast<float>(word >> 8) * 0x1p-24f - 0.5f);
  }
  absl::SleepFor(absl::Seconds(end - SecondsOf(CLOCK_MONOTONIC)));
}

}  // namespace

Manifest HeldManifest(uint64_t parameters) {
  Manifest manifest;
  auto left = static_cast<int64_t>(parameters);
  const auto add = [&](std::string name, int64_t rows, int64_t columns) {
    if (rows * columns > left) return;
    manifest.tensors.push_back({std::move(name), {rows, columns}});
    left -= rows * columns;
  };
  add("tokens", 50304, kWidth);
  add("positions", 1024, kWidth);
  for (int layer = 0; layer < 12; ++layer) {
    add(absl::StrCat("attention-", layer), kWidth, 3 * kWidth);
    add(absl::StrCat("projection-", layer), kWidth, kWidth);
    add(absl::StrCat("up-", layer), 4 * kWidth, kWidth);
    add(absl::StrCat("down-", layer), kWidth, 4 * kWidth);
  }
  if (left >= kWidth) manifest.tensors.push_back({"rest", {left / kWidth, kWidth}});
  return manifest;
}

absl::Status RunHeldWorker(const HeldWorkerOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* const cpu, OpsFor(BackendKind::kCpu));
  const KernelOps ops = WithClock(cpu);
  StopSignal stop;
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<MemberPlace> place,
                            MemberPlace::Open({.config = options.config,
                                               .name = "held",
                                               .state_dir = options.state_dir,
                                               .manifest = HeldManifest(options.parameters)},
                                              &stop));
  const uint64_t parameters = place->layout().parameter_count();
  std::vector<float> theta(parameters);
  PausedLoop loop(options.optimizer_arrays, parameters);
  LONGWAVE_RETURN_IF_ERROR(place->Join(theta).status());
  LONGWAVE_ASSIGN_OR_RETURN(
      MemberParts parts,
      place->Begin({.theta = theta.data(), .ops = &ops, .initial_weights = [parameters] {
                      return std::vector<float>(parameters);
                    }}));
  parts.loop = &loop;
  TrainingMember member(parts);
  absl::StatusOr<bool> trains = member.Begin();
  const uint64_t inner_steps = options.config.sync.inner_steps;
  const uint64_t hangs_from = options.config.run.steps / 2;
  std::jthread hang;
  double held = 0, kernels = 0, longest = 0;
  while (trains.ok() && *trains) {
    const uint64_t step = member.step();
    if (options.hang_seconds > 0 && step == hangs_from) {
      LONGWAVE_RETURN_IF_ERROR(WriteFile(options.hang_file, "hangs\n"));
      hang = std::jthread([&] {
        absl::SleepFor(absl::Seconds(options.hang_seconds));
        std::remove(options.hang_file.c_str());
      });
    }
    const double began = SecondsOf(CLOCK_MONOTONIC);
    InnerStep(theta, step, inner_steps, began + options.step_seconds);
    const double stepped = SecondsOf(CLOCK_MONOTONIC);
    kernel_seconds = 0;
    trains = member.StepDone(/*tokens=*/1, /*loss=*/1.0);
    const double between = SecondsOf(CLOCK_MONOTONIC) - stepped;
    held += between;
    kernels += kernel_seconds;
    longest = std::max(longest, between - kernel_seconds);
    if ((step + 1) % inner_steps != 0) continue;
    std::printf("round %llu held %.4f kernels %.4f longest %.4f\n",
                static_cast<unsigned long long>(step / inner_steps), held, kernels, longest);
    std::fflush(stdout);
    held = kernels = longest = 0;
  }
  return place->End(trains.status());
}

}  // namespace longwave
