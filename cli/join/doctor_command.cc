#include "cli/join/doctor_command.h"

#include <cstdio>
#include <vector>

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

}  // namespace

int RunDoctorCommand(const DoctorOptions& options) {
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

}  // namespace longwave
