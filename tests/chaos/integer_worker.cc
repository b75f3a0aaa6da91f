// A worker of the chaos test: the real member of a run around a model whose steps move it by known
// integers (integer_signal.h). β is 1, so the unsent part stays whole.
//
//   integer_worker --config FILE --name NAME --coordinator ADDRESS --state-dir DIR --run-folder DIR
//   integer_worker --config FILE --write-initial FILE

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
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
#include "server/store/posix_file_system.h"
#include "tests/chaos/integer_signal.h"
#include "tests/chaos/journal.h"
#include "tests/chaos/steps_pushed.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/member/member.h"
#include "worker/member/member_place.h"
#include "worker/member/stop_signal.h"
#include "worker/sync/pipeline.h"
#include "worker/weights/safetensors.h"

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
  Manifest manifest;
  Layout layout;
};

absl::StatusOr<Model> ModelOf(const RunConfig& config) {
  LONGWAVE_ASSIGN_OR_RETURN(Manifest manifest, GptManifest(config.model));
  LONGWAVE_ASSIGN_OR_RETURN(Layout layout,
                            Layout::Create(manifest, LayoutOptionsFor(config, manifest)));
  return Model{std::move(manifest), std::move(layout)};
}

absl::StatusOr<RunConfig> LoadRunConfig(const Flags& flags) {
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, LoadConfig(flags.config_path));
  config.cluster.coordinator = flags.coordinator;
  return config;
}

// A step subtracts SignalOf from the parameters.
class IntegerLoop final : public TrainingLoop {
 public:
  IntegerLoop(const Flags& flags, const Model& model, Journal* journal)
      : flags_(flags), model_(model), journal_(journal), theta_(model.layout.parameter_count()) {}

  absl::Status Train(MemberPlace& place) {
    LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(BackendKind::kCpu));
    LONGWAVE_ASSIGN_OR_RETURN(
        parts_, place.Begin({.theta = theta_.data(), .ops = ops, .initial_weights = [this] {
                               return std::vector<float>(theta_.size());
                             }}));
    if (parts_.worker >= kSignalWorkersMax) {
      return absl::InvalidArgumentError("more workers than have exact means");
    }
    LONGWAVE_RETURN_IF_ERROR(SayWhatIsKept());
    parts_.loop = this;
    TrainingMember member(parts_);
    LONGWAVE_ASSIGN_OR_RETURN(bool trains, member.Begin());
    while (trains) {
      absl::SleepFor(absl::Milliseconds(flags_.step_ms));  // stands for a model's computation
      for (uint64_t i = 0; i < theta_.size(); ++i)
        theta_[i] -= static_cast<float>(SignalOf(parts_.worker, member.step(), i));
      LONGWAVE_ASSIGN_OR_RETURN(trains, member.StepDone(kSignalWeight, 0));
    }
    return WriteEnd();
  }

 private:
  absl::Status SayWhatIsKept() {
    FileSystem& files = *parts_.folder->files();
    const std::string& folder = parts_.folder->path();
    LONGWAVE_ASSIGN_OR_RETURN(const std::optional<FoundCheckpoint> last,
                              ReadLastCheckpoint(files, folder, parts_.run, parts_.name,
                                                 parts_.worker, ShapeOf(model_.layout)));
    if (last.has_value() && last->stale) {
      journal_->Say("dropped");
      return absl::OkStatus();
    }
    const uint64_t first = last.has_value() ? last->checkpoint.step : 0;
    LONGWAVE_ASSIGN_OR_RETURN(
        const uint64_t end,
        StepsPushed(files, folder, last.has_value() ? last->checkpoint.write : 0));
    if (end > first) journal_->Say(absl::StrCat("since ", first, " ", end));
    return absl::OkStatus();
  }

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
    LONGWAVE_RETURN_IF_ERROR(WriteSafetensors(report.model_file, model_.manifest, model_.layout,
                                              parts_.pipeline->anchor(), {}));
    return report;
  }

  // Writes the worker's state at its end for the audit. No posted push is unsettled then.
  absl::Status WriteEnd() {
    Checkpoint end{.run = parts_.run,
                   .layout_hash = model_.layout.hash(),
                   .name = flags_.name,
                   .worker = parts_.worker,
                   .step = parts_.config->run.steps};
    LONGWAVE_ASSIGN_OR_RETURN(end.momentum, parts_.pipeline->ExportMomentum());
    end.accounted = parts_.pipeline->Accounted();
    const std::string folder = absl::StrCat(flags_.run_folder, "/final/", flags_.name);
    std::filesystem::create_directories(folder);
    const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
    const std::span<const float> anchor(parts_.pipeline->anchor(), theta_.size());
    LONGWAVE_RETURN_IF_ERROR(Publish(*files, folder, "anchor", {{std::as_bytes(anchor)}}));
    LONGWAVE_ASSIGN_OR_RETURN(const EncodedCheckpoint encoded, EncodeCheckpoint(end));
    return Publish(*files, folder, "checkpoint", encoded.pieces);
  }

  const Flags& flags_;
  const Model& model_;
  Journal* const journal_;
  std::vector<float> theta_;
  MemberParts parts_;
};

absl::Status RunWorker(const Flags& flags, StopSignal* stop) {
  if (!flags.write_initial.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(flags.config_path));
    LONGWAVE_ASSIGN_OR_RETURN(const Model model, ModelOf(config));
    const std::vector<float> zeros(model.layout.parameter_count());
    return WriteSafetensors(flags.write_initial, model.manifest, model.layout, zeros.data(), {});
  }
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(flags));
  LONGWAVE_ASSIGN_OR_RETURN(const Model model, ModelOf(config));
  Journal journal(absl::StrCat(flags.run_folder, "/journal/", flags.name));
  journal.Say("begin");
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<MemberPlace> place,
      MemberPlace::Open({.config = config,
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
  return place->End(IntegerLoop(flags, model, &journal).Train(*place));
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
