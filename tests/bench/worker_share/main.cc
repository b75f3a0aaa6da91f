// bench_worker_share: which share of a worker's time its kernels take.
//
//   bench_worker_share --data PATH [--set key=value]…
//
// Trains as one worker does (the real trainer, model, optimizer and pipeline) with a shard's merge
// in the same process instead of the network, and times each call of encode, finish and
// decode_update. The share is of inner steps and kernels together; waiting for the network would
// only lower it. Unless --set says otherwise: preset longwave with AdamW, whose step
// is the shorter one, H 30 and the kernels' bar of k 64 up and 256 down, a GPT of 10 M parameters,
// batches of 8 × 128 tokens, two rounds. docs/reference/benchmarks.md, section Kernels.

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/threads.h"
#include "common/config/config.h"
#include "kernels/ops.h"
#include "tests/bench/clock.h"
#include "tests/bench/in_process/in_process.h"
#include "worker/data/corpus.h"
#include "worker/models/device.h"
#include "worker/models/replica.h"

namespace longwave {
namespace {

constexpr int kRounds = 2;

// The table of the device's backend with a clock around the operations of a sync. A table holds
// plain functions, so their sums are globals.
const KernelOps* timed_ops = nullptr;
double encode_seconds = 0;
double decode_seconds = 0;

// Earlier queued work, such as an inner step, is finished before the clock starts.
absl::Status Timed(const Exec& exec, double* seconds, auto&& call) {
  LONGWAVE_RETURN_IF_ERROR(timed_ops->wait(exec));
  const double begin = SecondsOf(CLOCK_MONOTONIC);
  LONGWAVE_RETURN_IF_ERROR(call());
  const absl::Status done = timed_ops->wait(exec);
  *seconds += SecondsOf(CLOCK_MONOTONIC) - begin;
  return done;
}

KernelOps WithClock(const KernelOps* ops) {
  timed_ops = ops;
  KernelOps clocked = *ops;
  clocked.encode = [](const Exec& exec, std::span<const EncodeArgs> args) {
    return Timed(exec, &encode_seconds, [&] { return timed_ops->encode(exec, args); });
  };
  clocked.finish = [](const Exec& exec, uint32_t segment) {
    return Timed(exec, &encode_seconds, [&] { return timed_ops->finish(exec, segment); });
  };
  clocked.decode_update = [](const Exec& exec, std::span<const DecodeUpdateArgs> args) {
    return Timed(exec, &decode_seconds, [&] { return timed_ops->decode_update(exec, args); });
  };
  return clocked;
}

absl::StatusOr<RunConfig> MakeConfig(int argc, char** argv) {
  Overrides overrides = {"run.preset=longwave", "run.workers=1",   "run.shards=1",
                         "model.d_model=320",   "model.layers=8",  "model.heads=8",
                         "model.context=128",   "train.batch=8",   "sync.inner_steps=30",
                         "sync.up.k=64",        "sync.down.k=256", "train.optimizer=adamw"};
  const size_t defaults = overrides.size();
  bool steps_given = false;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc || (flag != "--set" && flag != "--data")) {
      return absl::InvalidArgumentError(
          absl::StrCat("got ", flag, ", wanted --data PATH or --set key=value"));
    }
    overrides.push_back(flag == "--data" ? absl::StrCat("data.path=", argv[i + 1]) : argv[i + 1]);
    steps_given = steps_given || overrides.back().rfind("run.steps=", 0) == 0;
  }
  if (overrides.size() == defaults) {
    return absl::InvalidArgumentError("wanted a text to train on: --data PATH");
  }
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, ParseConfig("{}", "bench_worker_share", overrides));
  if (!steps_given) config.run.steps = uint64_t{kRounds} * config.sync.inner_steps;
  if (config.train.threads == 0) {
    config.train.threads = DefaultThreads();
  }
  return config;
}

absl::Status Run(const RunConfig& config) {
  LONGWAVE_ASSIGN_OR_RETURN(const Device device, OpenDevice(config.train.device));
  LONGWAVE_ASSIGN_OR_RETURN(const Corpus data, Corpus::Load(config.data, config.model));
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<ShardInProcess> shard,
                            ShardInProcess::Create(config));
  KernelOps ops;
  LONGWAVE_ASSIGN_OR_RETURN(const TrainedInProcess done,
                            TrainInProcess(config, device, data, /*worker=*/0, /*validates=*/false,
                                           shard.get(), [&](const KernelOps* own, Replica&) {
                                             ops = WithClock(own);
                                             return &ops;
                                           }));
  const double kernels = encode_seconds + decode_seconds;
  const double rounds = done.last.round + 1;
  std::printf("%llu parameters on %s, %u threads, batch %u x %u, H %u, %.0f rounds, loss %.3f\n",
              static_cast<unsigned long long>(done.parameters),
              std::string(device.ops->name).c_str(), config.train.threads, config.train.batch,
              config.model.context, config.sync.inner_steps, rounds,
              done.last.train_loss.value_or(0));
  std::printf("an inner step takes %.4f s; a round's encode %.5f s, its decode-update %.5f s\n",
              done.last.seconds_computing / static_cast<double>(done.last.step),
              encode_seconds / rounds, decode_seconds / rounds);
  std::printf("encode and decode-update take %.3f %% of a worker's time (wanted at most 1 %%)\n",
              100 * kernels / (done.last.seconds_computing + kernels));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const absl::StatusOr<RunConfig> config = MakeConfig(argc, argv);
  const absl::Status status = config.ok() ? Run(*config) : config.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: bench_worker_share: %s\n", std::string(status.message()).c_str());
  return config.ok() ? 1 : 2;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) { return longwave::Main(argc, argv); }
