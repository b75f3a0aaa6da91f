#include "cli/doctor/examine.h"

#include <algorithm>
#include <cstdint>

#include "cli/doctor/measure.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/config/gpt_shape.h"
#include "common/wire/payload.h"
#include "worker/data/corpus.h"
#include "worker/data/data_files.h"
#include "worker/models/memory.h"

namespace longwave {
namespace {

// The approximate payload of a round over the whole model, as if all tiles were full.
double RoundBytes(const PayloadFormat& format, double parameter_count) {
  const uint32_t tile = kTileSizeMax;
  const absl::StatusOr<PayloadLayout> layout = PayloadLayout::Create(format, {&tile, 1});
  if (!layout.ok()) return 0;
  return static_cast<double>(layout->bytes() - kPayloadHeadBytes) / tile * parameter_count;
}

// Of data whose kind only the run knows.
absl::Status CheckFiles(const std::string& path) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> files, DataFiles(path));
  if (!files.empty()) return absl::OkStatus();
  return NotFound("data: ", path, " has no files; wanted the data to train on");
}

}  // namespace

Needs NeedsOf(const RunConfig& config) {
  Needs needs{.device = config.train.device};
  const absl::StatusOr<Manifest> manifest = GptManifest(config.model);
  if (!manifest.ok()) return needs;
  needs.gpu_memory_bytes = needs.memory_bytes = WorkerMemory(config, *manifest).bytes;
  needs.host_memory_bytes = HostMemory(config, *manifest).bytes;
  const double parameters = GptParameterCount(config.model);
  if (CanCatchUp(config) && config.cluster.checkpoint_rounds > 0) {
    needs.checkpoint_bytes = CheckpointBytes(config, *manifest);
    needs.memory_bytes += needs.checkpoint_bytes;
    needs.host_memory_bytes += needs.checkpoint_bytes;
  }
  needs.push_bytes = RoundBytes(config.sync.up, parameters);
  needs.pull_bytes = RoundBytes(config.sync.down, parameters);
  return needs;
}

std::vector<Finding> Examine(const Patient& patient) {
  Needs needs = patient.config ? NeedsOf(*patient.config) : Needs();
  if (!patient.device.empty()) needs.device = patient.device;
  Readings readings{
      .driver = MeasureDriver(),
      // Another check reports whether a wanted GPU is usable; this one, whether the worker starts.
      .worker = MeasureWorker(patient.binaries, needs.device == "cpu" ? "cpu" : "auto"),
      .disk = MeasureDisk(patient.state_dir),
      .memory = ReadMachineMemory()};
  if (patient.config) {
    readings.data = Corpus::Load(patient.config->data, patient.config->model).status();
  } else if (!patient.data.empty()) {
    readings.data = CheckFiles(patient.data);
  }
  if (!patient.coordinator.empty())
    readings.coordinator = MeasureCoordinator(patient.coordinator, patient.credentials);
  return CheckAll(readings, needs);
}

std::vector<Finding> ExamineForUp(const RunConfig& config, const std::string& folder,
                                  const std::string& binaries) {
  std::vector<Finding> findings;
  Needs needs = binaries.empty() ? Needs() : NeedsOf(config);
  needs.checkpoint_bytes *= config.run.workers;
  needs.folder_option = "--runs-dir";
  if (!folder.empty()) findings.push_back(CheckDisk(MeasureDisk(folder), needs));
  const DriverReading driver = MeasureDriver();
  // Without a GPU, which most machines have not, the CPU is what `auto` means.
  if (!binaries.empty() && needs.device != "cpu" && (driver.on_the_bus || !driver.gpus.empty())) {
    findings.push_back(CheckDriver(driver));
    // `auto` means the CPU then.
    if (needs.device == "auto")
      findings.back().verdict = std::min(findings.back().verdict, Finding::Verdict::kWarning);
    findings.push_back(CheckGpu(driver, MeasureWorker(binaries, "auto"), needs));
  }
  std::erase_if(findings,
                [](const Finding& finding) { return finding.verdict == Finding::Verdict::kOk; });
  return findings;
}

}  // namespace longwave
