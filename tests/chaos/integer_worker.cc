// A worker of the chaos test: the real session, trainer, checkpoints, exchange and pipeline around
// a model whose steps move it by integers that are known beforehand (integer_signal.h). β is 1, so
// that what is not sent stays whole.
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
#include "common/base/status_macros.h"
#include "common/base/termination.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/layout/layout.h"
#include "common/layout/segment_elements.h"
#include "common/log/log.h"
#include "common/rpc/coordinator_client.h"
#include "common/security/security_mode.h"
#include "kernels/ops.h"
#include "server/store/posix_file_system.h"
#include "tests/chaos/integer_signal.h"
#include "tests/chaos/journal.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/data/corpus.h"
#include "worker/member/session.h"
#include "worker/member/sync_options.h"
#include "worker/models/replica.h"
#include "worker/sync/exchange.h"
#include "worker/sync/pipeline.h"
#include "worker/trainer/safetensors.h"
#include "worker/trainer/trainer.h"

namespace longwave {
namespace {

constexpr absl::Duration kCallDeadline = absl::Seconds(3);

struct Flags {
  std::string config_path;
  std::string name;
  std::string coordinator;
  std::string state_dir;
  std::string run_folder;
  std::string write_initial;
  int step_ms = 0;
};

// Begins with zeros; a step takes what SignalOf says from its parameters.
class IntegerReplica final : public Replica {
 public:
  IntegerReplica(Manifest manifest, uint64_t parameters, uint32_t worker, absl::Duration step_time)
      : manifest_(std::move(manifest)),
        worker_(worker),
        step_time_(step_time),
        theta_(parameters),
        gradient_(parameters) {}

  void Follow(const JournalingHost* host) { host_ = host; }

  const Manifest& manifest() const override { return manifest_; }
  uint64_t parameter_count() const override { return theta_.size(); }
  float* theta() override { return theta_.data(); }
  // Always zero, so that the inner optimizer changes nothing.
  float* gradient() override { return gradient_.data(); }

  absl::StatusOr<double> ForwardBackward(const Batch&) override {
    absl::SleepFor(step_time_);  // as a model would compute
    for (uint64_t i = 0; i < theta_.size(); ++i) {
      theta_[i] -= static_cast<float>(SignalOf(worker_, host_->next_step(), i));
    }
    return 0.0;
  }
  absl::StatusOr<double> Loss(const Batch&) override { return 0.0; }

 private:
  const Manifest manifest_;
  const uint32_t worker_;
  const absl::Duration step_time_;
  std::vector<float> theta_;
  std::vector<float> gradient_;
  const JournalingHost* host_ = nullptr;
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

absl::Status WriteBytes(const std::string& path,
                        const std::vector<std::span<const std::byte>>& pieces) {
  std::ofstream file(path, std::ios::binary);
  for (const auto& piece : pieces) {
    file.write(reinterpret_cast<const char*>(piece.data()),
               static_cast<std::streamsize>(piece.size()));
  }
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

// What the worker has at its end, for the audit: nothing it posted is unsettled then.
absl::Status WriteEnd(const Flags& flags, const Model& model, uint64_t run, uint32_t worker,
                      SyncPipeline& pipeline) {
  const uint64_t parameters = model.layout.parameter_count();
  Checkpoint end{.run = run,
                 .layout_hash = model.layout.hash(),
                 .name = flags.name,
                 .worker = worker,
                 .step = model.config.run.steps,
                 .m = std::vector<float>(parameters),
                 .v = std::vector<float>(parameters)};
  LONGWAVE_ASSIGN_OR_RETURN(end.momentum, pipeline.ExportMomentum());
  end.accounted = pipeline.Accounted();
  LONGWAVE_ASSIGN_OR_RETURN(const EncodedCheckpoint encoded, EncodeCheckpoint(end));
  const std::string path = absl::StrCat(flags.run_folder, "/final/", flags.name);
  LONGWAVE_RETURN_IF_ERROR(
      WriteBytes(path + ".anchor", {std::as_bytes(std::span(pipeline.anchor(), parameters))}));
  return WriteBytes(path + ".checkpoint", encoded.pieces);
}

absl::Status Train(const Flags& flags, const Model& model, Session& session, WorkerFolder* folder,
                   const CurveKeys& keys, Journal* journal) {
  const RunConfig& config = model.config;
  const Layout& layout = model.layout;
  LONGWAVE_ASSIGN_OR_RETURN(const Corpus corpus, Corpus::Load(config.data, config.model.context));
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(BackendKind::kCpu));
  LONGWAVE_ASSIGN_OR_RETURN(const Session::Start start, session.AwaitStart(config.run.shards));
  if (session.worker() >= kSignalWorkersMax) {
    return absl::InvalidArgumentError("more workers than have exact means");
  }
  const auto last = folder->Read(start.run, flags.name, session.worker(), ShapeOf(layout));
  if (last.ok() && last->has_value() && (*last)->stale) journal->Say("dropped");

  IntegerReplica replica(model.manifest, layout.parameter_count(), session.worker(),
                         absl::Milliseconds(flags.step_ms));
  SyncOptions options = SyncOptionsOf(config.sync, config.run.seed);
  options.beta = 1;
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<SyncPipeline> pipeline,
      SyncPipeline::Create(options, &layout, ops, Exec{.threads = 1},
                           {.theta = replica.theta(), .gradient = replica.gradient()}));
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Exchange> connected,
                            Exchange::Connect({.run = start.run,
                                               .worker = session.worker(),
                                               .shard_endpoints = start.shard_endpoints,
                                               .keys = keys},
                                              layout));
  JournalingExchange exchange(std::move(connected), journal);
  JournalingHost host(&session, journal);
  replica.Follow(&host);
  Trainer trainer(
      {.config = &config,
       .layout = &layout,
       .corpus = &corpus,
       .replica = &replica,
       .ops = ops,
       .exec = Exec{.threads = 1},
       .pipeline = pipeline.get(),
       .exchange = &exchange,
       .host = &host,
       .run = start.run,
       .name = flags.name,
       .worker = session.worker(),
       .run_dir = flags.run_folder,
       .folder = folder,
       .initial_weights = [&layout] { return std::vector<float>(layout.parameter_count()); }});
  LONGWAVE_RETURN_IF_ERROR(trainer.Run().status());
  return WriteEnd(flags, model, start.run, session.worker(), *pipeline);
}

absl::Status RunWorker(const Flags& flags, StopSignal* stop) {
  LONGWAVE_ASSIGN_OR_RETURN(const Model model, LoadModel(flags));
  if (!flags.write_initial.empty()) {
    const std::vector<float> zeros(model.layout.parameter_count());
    return WriteSafetensors(flags.write_initial, model.manifest, model.layout, zeros.data(), {});
  }
  Journal journal(absl::StrCat(flags.run_folder, "/journal/", flags.name));
  journal.Say("begin");
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerFolder> folder,
                            WorkerFolder::Open(files.get(), flags.state_dir));
  const RunConfig& config = model.config;
  const bool is_secured = IsSecured(config.security.mode, {flags.coordinator});
  CurveKeys keys;
  if (is_secured) {
    LONGWAVE_ASSIGN_OR_RETURN(keys, MakeCurveKeys());
  }
  const auto client = CoordinatorClient::Connect(
      flags.coordinator, kCallDeadline,
      is_secured ? absl::StrCat(flags.state_dir, "/security") : std::string());
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Join(
      client.get(),
      {.name = flags.name,
       .identity = folder->identity(),
       .process = folder->process(),
       .coordinator = flags.coordinator,
       .manifest = model.manifest,
       .layout_hash = model.layout.hash(),
       .settings = BindingSettings(config),
       .start_hashes = StartHashes(model.layout, std::vector<float>(model.layout.parameter_count()),
                                   StateArrays(config)),
       .data_key = keys.public_key,
       .heartbeat_interval = absl::Seconds(config.cluster.heartbeat_interval_s),
       .start_timeout = absl::Seconds(config.cluster.start_timeout_s)},
      stop);
  if (absl::IsCancelled(session.status())) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(session.status());
  std::printf("ready %u\n", (*session)->worker());
  std::fflush(stdout);
  const absl::Status trained = Train(flags, model, **session, folder.get(), keys, &journal);
  if (!trained.ok() && !absl::IsCancelled(trained)) {
    (*session)->Fail(std::string(trained.message()));
    return trained;
  }
  const auto ending = (*session)->ended();
  return ending.has_value() ? ending->ToStatus() : absl::OkStatus();
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
