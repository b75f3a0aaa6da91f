#include "cli/join/join_commands.h"

#include <CLI/CLI.hpp>

namespace longwave {

JoinCommands::JoinCommands(CLI::App* app) {
  const CLI::IsMember is_device({"auto", "cpu", "cuda"});
  const CLI::Range is_ranks(1, 64);

  CLI::App* const join = app->add_subcommand(
      "join", "Make this machine a worker of a secured run: all that a cloud instance runs.");
  join->add_option("address", join_.address, "host:port of the coordinator")->required();
  join->add_option(
      "--token", join_.token,
      "What `longwave token create` printed; not needed where one was redeemed before");
  join->add_option("--token-file", join_.token_file, "A file that has it; -: standard input");
  join->add_option("--name", join_.name, "Of this worker, one each [this machine's host name]");
  join->add_option("--state-dir", join_.state_dir,
                   "Folder of credentials, configuration and checkpoints [$STATE_DIRECTORY, or "
                   "~/.longwave/HOST-PORT, for root /var/lib/longwave/HOST-PORT]");
  join->add_option("--data", join_.data, "The text to train on, instead of the run's data.path");
  join->add_option("--device", join_.device, "Instead of train.device")->check(is_device);
  join->add_option("--threads", join_.threads, "Instead of train.threads");
  join->add_option("--ranks", join_.ranks, "Instead of train.ranks")->check(is_ranks);
  join->add_option("--set", join_.overrides, "A setting of this worker alone, key=value")
      ->allow_extra_args(false);
  join->add_flag("--dry-run", join_.dry_run,
                 "Only check the machine and say what would be run: no token is redeemed");
  join_command_ = join;

  CLI::App* const doctor = app->add_subcommand(
      "doctor", "Check what this machine and its links can do for a run, with a remedy for each.");
  doctor->add_option("address", doctor_.address, "host:port of a coordinator; none: no links");
  doctor->add_option("--state-dir", doctor_.state_dir,
                     "Folder of `longwave join`, which has all that is to be known of the run");
  doctor->add_option("--security", doctor_.security, "Folder of credentials, instead of its");
  doctor->add_option("--data", doctor_.data, "The text to train on, instead of data.path");
  doctor->add_option("--device", doctor_.device, "Instead of train.device")->check(is_device);
  doctor->add_option("--ranks", doctor_.ranks, "Instead of train.ranks: measures their link")
      ->check(is_ranks);
  doctor->add_flag("--json", doctor_.json, "For programs");
  doctor_command_ = doctor;
}

std::optional<int> JoinCommands::Run() const {
  if (join_command_->parsed()) return RunJoinCommand(join_);
  if (doctor_command_->parsed()) return RunDoctorCommand(doctor_);
  return std::nullopt;
}

}  // namespace longwave
