#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/doctor/examine.h"
#include "cli/doctor/report.h"
#include "cli/join/join.h"
#include "cli/join/joined_folder.h"
#include "cli/programs/programs.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/config/key_types.h"

namespace longwave {
namespace {

struct DoctorOptions {
  std::string address;    // host:port of a coordinator; empty: state_dir's, or none
  std::string state_dir;  // of a machine that has joined, or will join
  std::string security;   // folder of credentials; empty: state_dir's
  std::string device;     // requested; empty: the run's, or auto
  std::string data;
  bool json = false;
};

absl::StatusOr<Patient> PatientOf(const DoctorOptions& options) {
  Patient patient{.coordinator = options.address,
                  .credentials = options.security,
                  .data = options.data,
                  .device = options.device};
  // Without a worker anywhere, the check of its libraries fails.
  const absl::StatusOr<std::string> found = WorkerFolder();
  LONGWAVE_ASSIGN_OR_RETURN(patient.binaries, found.ok() ? found : OwnFolder());
  if (!options.state_dir.empty()) {
    const JoinedFolder folder(options.state_dir);
    patient.state_dir = folder.path();
    LONGWAVE_ASSIGN_OR_RETURN(const std::optional<Joined> joined, folder.Load());
    if (joined) {
      if (patient.coordinator.empty()) patient.coordinator = joined->coordinator;
      if (patient.credentials.empty()) patient.credentials = folder.security_folder();
      const JoinOptions overrides{.device = options.device, .data = options.data};
      LONGWAVE_ASSIGN_OR_RETURN(
          patient.config, LoadConfig(folder.config_file(), WorkerOverrides(overrides, folder)));
    }
  }
  if (!patient.coordinator.empty())
    LONGWAVE_RETURN_IF_ERROR(CheckCoordinatorAddress(patient.coordinator));
  return patient;
}

// Prints a finding for each part of the machine and its links. Returns 1 if a check failed.
int RunDoctor(const DoctorOptions& options) {
  const absl::StatusOr<Patient> patient = PatientOf(options);
  if (!patient.ok()) return ExitStatus("longwave doctor", patient.status());
  const std::vector<Finding> findings = Examine(*patient);
  if (options.json) {
    std::printf("%s\n", ReportJson(findings).c_str());
  } else {
    for (const std::string& line : ReportLines(findings)) PrintLine(stdout, line);
  }
  return Worst(findings) == Finding::Verdict::kFailed ? 1 : 0;
}

}  // namespace

void AddJoinCommands(CLI::App* app, Commands* commands) {
  const CLI::IsMember is_device({"auto", "cpu", "cuda"});

  const auto join_options = std::make_shared<JoinOptions>();
  CLI::App* const join = app->add_subcommand(
      "join", "Make this machine a worker of a secured run: all that a cloud instance runs.");
  join->add_option("address", join_options->address, "host:port of the coordinator")->required();
  join->add_option(
      "--token", join_options->token,
      "The token that `longwave token create` printed; not needed if one was redeemed before");
  join->add_option("--token-file", join_options->token_file,
                   "A file with the token; -: standard input");
  join->add_option("--name", join_options->name,
                   "Name of this worker, which no other has [this machine's host name]");
  join->add_option("--state-dir", join_options->state_dir,
                   "Folder of credentials, configuration and checkpoints [$STATE_DIRECTORY, or "
                   "~/.longwave/HOST-PORT, for root /var/lib/longwave/HOST-PORT]");
  join->add_option("--data", join_options->data,
                   "The text to train on, instead of the run's data.path");
  join->add_option("--device", join_options->device, "Instead of train.device")->check(is_device);
  join->add_option("--threads", join_options->threads, "Instead of train.threads");
  join->add_option("--set", join_options->overrides, "A setting of this worker alone, key=value")
      ->allow_extra_args(false);
  join->add_flag("--dry-run", join_options->dry_run,
                 "Only check the machine and say what would be run; redeem no token");
  commands->emplace_back(
      join, [join_options] { return ExitStatus("longwave join", Join(*join_options)); });

  const auto doctor_options = std::make_shared<DoctorOptions>();
  CLI::App* const doctor = app->add_subcommand(
      "doctor", "Check what this machine and its links can do for a run, with a remedy for each.");
  doctor->add_option("address", doctor_options->address,
                     "host:port of a coordinator; none: no links");
  doctor->add_option("--state-dir", doctor_options->state_dir,
                     "State folder of `longwave join`, from which the checks know the run");
  doctor->add_option("--security", doctor_options->security,
                     "Folder of credentials, instead of its");
  doctor->add_option("--data", doctor_options->data, "The text to train on, instead of data.path");
  doctor->add_option("--device", doctor_options->device, "Instead of train.device")
      ->check(is_device);
  doctor->add_flag("--json", doctor_options->json, "For programs");
  commands->emplace_back(doctor, [doctor_options] { return RunDoctor(*doctor_options); });
}

}  // namespace longwave
