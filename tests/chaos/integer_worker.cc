// A worker of the chaos test: the real member of a run around a model whose steps move it by known
// integers (integer_signal.h). β is 1, so the unsent part stays whole.
//
//   integer_worker --config FILE --name NAME --coordinator ADDRESS --state-dir DIR --run-folder DIR
//   integer_worker --config FILE --write-initial FILE

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/termination.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/layout/layout.h"
#include "common/log/log.h"
#include "kernels/ops.h"
#include "tests/chaos/integer_signal.h"
#include "tests/chaos/journal.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/member/member.h"
#include "worker/member/member_place.h"
#include "worker/member/stop_signal.h"
#include "worker/sync/pipeline.h"
#include "worker/trainer/safetensors.h"

namespace longwave {
namespace {

struct Flags {
  std::string config_path;
  std::string name;
  std::string coordinator;
  std::string state_dir;
  std::string run_folder;
  std::string write_initial;
  int step_ms = 0;
};

struct Model {
  RunConfig config;
  Manifest manifest;
  Layout layout;
};

absl::StatusOr<Model> LoadModel(const Flags& flags) {
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, LoadConfig(flags.config_path));
  LONGWAVE_ASSIGN_OR_RETURN(Manifest manifest, GptManifest(config.model));
  LONGWAVE_ASSIGN_OR_RETURN(Layout layout,
                            Layout::Create(manifest, LayoutOptionsFor(config, manifest)));
  return Model{std::move(config), std::move(manifest), std::move(layout)};
}

// Whole or not at all, since the worker may be killed meanwhile.
absl::Status WriteBytes(const std::string& path,
                        const std::vector<std::span<const std::byte>>& pieces) {
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  for (const auto& piece : pieces) {
    file.write(reinterpret_cast<const char*>(piece.data()),
               static_cast<std::streamsize>(piece.size()));
  }
  file.close();
  const bool written = file && std::rename(part.c_str(), path.c_str()) == 0;
  return written ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

// Writes the worker's state at its end for the audit. No posted push is unsettled then.
absl::Status WriteEnd(const Flags& flags, const Model& model, uint64_t run, uint32_t worker,
                      SyncPipeline& pipeline) {
  const uint64_t parameters = model.layout.parameter_count();
  Checkpoint end{.run = run,
                 .layout_hash = model.layout.hash(),
                 .name = flags.name,
                 .worker = worker,
                 .step = model.config.run.steps};
  LONGWAVE_ASSIGN_OR_RETURN(end.momentum, pipeline.ExportMomentum());
  end.accounted = pipeline.Accounted();
  LONGWAVE_ASSIGN_OR_RETURN(const EncodedCheckpoint encoded, EncodeCheckpoint(end));
  const std::string path = absl::StrCat(flags.run_folder, "/final/", flags.name);
  LONGWAVE_RETURN_IF_ERROR(
      WriteBytes(path + ".anchor", {std::as_bytes(std::span(pipeline.anchor(), parameters))}));
  return WriteBytes(path + ".checkpoint", encoded.pieces);
}

// The loop's part of a run besides its steps: the journal, and the final weights.
class IntegerLoop final : public TrainingLoop {
 public:
  IntegerLoop(const Flags& flags, const Model& model, const float* theta, Journal* journal)
      : flags_(flags), model_(model), theta_(theta), journal_(journal) {}

  absl::Status EndRound(RoundReport* report) override {
    journal_->Say(absl::StrCat("round ", report->round, " ",
                               absl::ToInt64Nanoseconds(MonotonicNow() - absl::UnixEpoch())));
    return absl::OkStatus();
  }
  absl::StatusOr<FinalReport> Conclude(bool writes_weights) override {
    FinalReport report;
    if (!writes_weights) return report;
    report.validation_loss = 0;
    report.model_file = absl::StrCat(flags_.run_folder, "/model.safetensors");
    LONGWAVE_RETURN_IF_ERROR(
        WriteSafetensors(report.model_file, model_.manifest, model_.layout, theta_, {}));
    return report;
  }

 private:
  const Flags& flags_;
  const Model& model_;
  const float* const theta_;
  Journal* const journal_;
};

// A step subtracts SignalOf from the parameters.
absl::Status Train(const Flags& flags, const Model& model, MemberPlace& place, Journal* journal) {
  std::vector<float> theta(model.layout.parameter_count());
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(BackendKind::kCpu));
  LONGWAVE_ASSIGN_OR_RETURN(MemberParts parts,
                            place.Begin({.theta = theta.data(), .ops = ops, .initial_weights = [&] {
                                           return std::vector<float>(theta.size());
                                         }}));
  if (parts.worker >= kSignalWorkersMax) {
    return absl::InvalidArgumentError("more workers than have exact means");
  }
  const auto last = parts.folder->Read(parts.run, parts.name, parts.worker, ShapeOf(model.layout));
  if (last.ok() && last->has_value() && (*last)->stale) journal->Say("dropped");
  IntegerLoop loop(flags, model, theta.data(), journal);
  parts.loop = &loop;
  TrainingMember member(parts);
  LONGWAVE_ASSIGN_OR_RETURN(bool trains, member.Begin());
  while (trains) {
    absl::SleepFor(absl::Milliseconds(flags.step_ms));  // stands for a model's computation
    for (uint64_t i = 0; i < theta.size(); ++i)
      theta[i] -= static_cast<float>(SignalOf(parts.worker, member.step(), i));
    LONGWAVE_ASSIGN_OR_RETURN(trains, member.StepDone(kSignalWeight, /*loss=*/0));
  }
  return WriteEnd(flags, model, parts.run, parts.worker, *parts.pipeline);
}

absl::Status RunWorker(const Flags& flags, StopSignal* stop) {
  LONGWAVE_ASSIGN_OR_RETURN(Model model, LoadModel(flags));
  if (!flags.write_initial.empty()) {
    const std::vector<float> zeros(model.layout.parameter_count());
    return WriteSafetensors(flags.write_initial, model.manifest, model.layout, zeros.data(), {});
  }
  model.config.cluster.coordinator = flags.coordinator;
  Journal journal(absl::StrCat(flags.run_folder, "/journal/", flags.name));
  journal.Say("begin");
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<MemberPlace> place,
      MemberPlace::Open({.config = model.config,
                         .name = flags.name,
                         .state_dir = flags.state_dir,
                         .manifest = model.manifest,
                         .wrap_exchange =
                             [&](std::unique_ptr<Exchange> exchange) {
                               return std::make_unique<JournalingExchange>(std::move(exchange),
                                                                           &journal);
                             },
                         .adjust_sync = [](SyncOptions* sync) { sync->beta = 1; }},
                        stop));
  const absl::StatusOr<uint32_t> worker =
      place->Join(std::vector<float>(model.layout.parameter_count()));
  if (absl::IsCancelled(worker.status())) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(worker.status());
  std::printf("ready %u\n", *worker);
  std::fflush(stdout);
  return place->End(Train(flags, model, *place, &journal));
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("A worker of the chaos test, whose model is made of integers");
  app.add_option("--config", flags.config_path)->required();
  app.add_option("--name", flags.name);
  app.add_option("--coordinator", flags.coordinator);
  app.add_option("--state-dir", flags.state_dir);
  app.add_option("--run-folder", flags.run_folder);
  app.add_option("--step-ms", flags.step_ms);
  app.add_option("--write-initial", flags.write_initial);
  CLI11_PARSE(app, argc, argv);
  SetLogProcess(flags.name);
  StopSignal stop;
  const Termination termination(
      {.grace = absl::Seconds(3), .on_signal = [&stop] { stop.Request(); }, .on_overdue = [] {}});
  const absl::Status status = RunWorker(flags, &stop);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s: %s\n", flags.name.c_str(),
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) { return longwave::Main(argc, argv); }
