#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/join/doctor_command.h"
#include "cli/join/join.h"
#include "common/base/print.h"

namespace longwave {

void AddJoinCommands(CLI::App* app, Commands* commands) {
  const CLI::IsMember is_device({"auto", "cpu", "cuda"});

  const auto join_options = std::make_shared<JoinOptions>();
  CLI::App* const join = app->add_subcommand(
      "join", "Make this machine a worker of a secured run: all that a cloud instance runs.");
  join->add_option("address", join_options->address, "host:port of the coordinator")->required();
  join->add_option(
      "--token", join_options->token,
      "What `longwave token create` printed; not needed where one was redeemed before");
  join->add_option("--token-file", join_options->token_file,
                   "A file that has it; -: standard input");
  join->add_option("--name", join_options->name,
                   "Of this worker, one each [this machine's host name]");
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
                 "Only check the machine and say what would be run: no token is redeemed");
  commands->emplace_back(
      join, [join_options] { return ExitStatus("longwave join", Join(*join_options)); });

  const auto doctor_options = std::make_shared<DoctorOptions>();
  CLI::App* const doctor = app->add_subcommand(
      "doctor", "Check what this machine and its links can do for a run, with a remedy for each.");
  doctor->add_option("address", doctor_options->address,
                     "host:port of a coordinator; none: no links");
  doctor->add_option("--state-dir", doctor_options->state_dir,
                     "Folder of `longwave join`, which has all that is to be known of the run");
  doctor->add_option("--security", doctor_options->security,
                     "Folder of credentials, instead of its");
  doctor->add_option("--data", doctor_options->data, "The text to train on, instead of data.path");
  doctor->add_option("--device", doctor_options->device, "Instead of train.device")
      ->check(is_device);
  doctor->add_flag("--json", doctor_options->json, "For programs");
  commands->emplace_back(doctor, [doctor_options] { return RunDoctorCommand(*doctor_options); });
}

}  // namespace longwave
