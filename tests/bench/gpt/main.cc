// bench_gpt: training steps of our GPT, for beside_pytorch.py to time beside PyTorch's.
//
//   bench_gpt --batches FILE --weights FILE [--set key=value]…
//
// Reads batches, 64-bit tokens [count, train.batch, model.context + 1]; writes the weights that it
// begins with, fp32, tensor by tensor in the manifest's order. For each line of standard input, a
// number of steps, it takes so many (forward, backward, clip, optimizer) with the batches in turn
// and prints wall seconds, processor seconds and the loss of the last step.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/layout/layout.h"
#include "kernels/ops.h"
#include "tests/bench/clock.h"
#include "worker/models/adamw.h"
#include "worker/models/device.h"
#include "worker/models/optimizers.h"
#include "worker/models/replica.h"

namespace longwave {
namespace {

struct Options {
  std::string batches, weights;
  Overrides overrides;
};

absl::StatusOr<Options> Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--batches") options.batches = value;
    if (flag == "--weights") options.weights = value;
    if (flag == "--set") options.overrides.push_back(value);
  }
  if (argc % 2 == 0 || options.batches.empty() || options.weights.empty())
    return absl::InvalidArgumentError("wanted --batches FILE --weights FILE [--set key=value]…");
  return options;
}

absl::StatusOr<std::vector<Batch>> ReadBatches(const std::string& path, int64_t rows,
                                               int64_t length) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Batch> batches;
  std::vector<int64_t> row(static_cast<size_t>(length) + 1);
  const auto next = [&] {
    file.read(reinterpret_cast<char*>(row.data()),
              static_cast<std::streamsize>(row.size() * sizeof(row[0])));
    return static_cast<bool>(file);
  };
  while (next()) {
    if (batches.empty() || batches.back().targets.size() == static_cast<size_t>(rows * length))
      batches.push_back({.rows = rows, .length = length});
    Batch& batch = batches.back();
    batch.tokens.insert(batch.tokens.end(), row.begin(), row.end() - 1);
    batch.targets.insert(batch.targets.end(), row.begin() + 1, row.end());
  }
  if (batches.empty() || batches.back().targets.size() != static_cast<size_t>(rows * length))
    return absl::InvalidArgumentError(absl::StrCat(path, ": no whole batches"));
  return batches;
}

absl::Status WriteWeights(const std::string& path, const Device& device, const Exec& exec,
                          Replica& replica) {
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout,
                            Layout::Create(replica.manifest(), LayoutOptions{}));
  // θ may be in a device's memory.
  std::vector<float> theta(replica.parameter_count());
  LONGWAVE_RETURN_IF_ERROR(
      device.ops->copy(exec, theta.data(), replica.theta(), theta.size() * sizeof(float)));
  LONGWAVE_RETURN_IF_ERROR(device.ops->wait(exec));
  std::ofstream file(path, std::ios::binary);
  for (size_t i = 0; i < replica.manifest().tensors.size(); ++i) {
    file.write(reinterpret_cast<const char*>(theta.data() + layout.flat_offset(i)),
               static_cast<std::streamsize>(ElementCount(replica.manifest().tensors[i]) * 4));
  }
  if (!file.flush()) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config,
                            ParseConfig("{}", "bench_gpt", options.overrides));
  const TrainSection& train = config.train;
  LONGWAVE_ASSIGN_OR_RETURN(const Device device, OpenDevice(train.device));
  const int threads = static_cast<int>(std::max(1u, train.threads));
  const Exec exec = {.stream = device.stream, .threads = threads};
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Replica> replica,
      Replica::Create(config.model, train, config.run.seed, threads, device.kind));
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<InnerOptimizer> optimizer,
                            MakeOptimizer(train, replica->manifest(), device.ops, exec));
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<Batch> batches,
                            ReadBatches(options.batches, train.batch, config.model.context));
  LONGWAVE_RETURN_IF_ERROR(WriteWeights(options.weights, device, exec, *replica));
  std::printf("%llu parameters\n", static_cast<unsigned long long>(replica->parameter_count()));
  std::fflush(stdout);
  size_t step = 0;
  for (int count = 0; std::cin >> count;) {
    const double wall = SecondsOf(CLOCK_MONOTONIC), processor = SecondsOf(CLOCK_PROCESS_CPUTIME_ID);
    double loss = 0;
    for (int i = 0; i < count; ++i, ++step) {
      LONGWAVE_ASSIGN_OR_RETURN(loss, replica->ForwardBackward(batches[step % batches.size()]));
      LONGWAVE_RETURN_IF_ERROR(ClipToNorm(*device.ops, exec, train.clip_norm, replica->gradient(),
                                          replica->parameter_count())
                                   .status());
      LONGWAVE_RETURN_IF_ERROR(
          optimizer->Step(replica->gradient(), train.learning_rate, replica->theta()));
    }
    LONGWAVE_RETURN_IF_ERROR(device.ops->wait(exec));
    std::printf("%.6f %.6f %.6f\n", SecondsOf(CLOCK_MONOTONIC) - wall,
                SecondsOf(CLOCK_PROCESS_CPUTIME_ID) - processor, loss);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Options> options = Parse(argc, argv);
  const absl::Status status = options.ok() ? Run(*options) : options.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: bench_gpt: %s\n", std::string(status.message()).c_str());
  return options.ok() ? 1 : 2;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) { return longwave::Main(argc, argv); }
