#include "cli/security/security_commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/security/certificate_command.h"
#include "cli/security/member_commands.h"
#include "common/base/print.h"

namespace longwave {

struct SecurityCommands::Parts {
  OperatorOptions target;
  TokenCreateOptions token;
  std::string token_id;
  std::string worker;
  bool undo = false;
  bool whole = false;  // --all-of-it
  CertificateMakeOptions make;
  std::vector<std::string> addresses;
  std::string show_folder;

  CLI::App* create = nullptr;
  CLI::App* list = nullptr;
  CLI::App* revoke = nullptr;
  CLI::App* expel = nullptr;
  CLI::App* certificate_make = nullptr;
  CLI::App* certificate_show = nullptr;
};

SecurityCommands::SecurityCommands(CLI::App* app) : parts_(std::make_unique<Parts>()) {
  Parts& parts = *parts_;
  const auto add_target = [&parts](CLI::App* command) {
    command->add_option("address", parts.target.address, "host:port of the coordinator")
        ->required();
    command->add_option("--security", parts.target.security,
                        "Folder of an operator's credentials: ca.crt, tls.crt, tls.key");
    return command;
  };
  CLI::App* const token = app->add_subcommand("token", "Let processes join a secured run.");
  token->require_subcommand(1);
  parts.create = add_target(token->add_subcommand("create", "Make a token and print it."));
  parts.create->add_option("--life", parts.token.life, "How long it is good, as 30m or 24h")
      ->capture_default_str();
  parts.create->add_option("--uses", parts.token.uses, "How many may join with it")
      ->capture_default_str();
  parts.create->add_option("--name", parts.token.name,
                           "The one worker that it is for, also if the name was another's; "
                           "otherwise any that chooses a name of its own");
  parts.create->add_option("--shard", parts.token.shard, "The shard that it is for, by index")
      ->check(CLI::NonNegativeNumber);
  parts.list = add_target(token->add_subcommand("list", "Show tokens, and who was expelled."));
  parts.revoke = add_target(token->add_subcommand("revoke", "Nobody joins with a token any more."));
  parts.revoke->add_option("id", parts.token_id, "Its id, as `token list` shows it")->required();

  parts.expel = add_target(
      app->add_subcommand("expel", "Shut a worker out of a run, with all that it holds."));
  parts.expel->add_option("worker", parts.worker, "Its name")->required();
  parts.expel->add_flag("--undo", parts.undo, "Let the name take part again");
  parts.expel->add_flag("--all-of-it", parts.whole,
                        "Also where its certificate names other workers: all of them are shut out");

  CLI::App* const certificate =
      app->add_subcommand("certificate", "Make and show certificates, without a coordinator.");
  certificate->require_subcommand(1);
  parts.certificate_make = certificate->add_subcommand(
      "make", "Make a key and a certificate; and an authority, where none is given or there.");
  parts.certificate_make
      ->add_option("--folder", parts.make.folder, "Gets ca.crt, tls.crt and tls.key")
      ->required();
  parts.certificate_make->add_option("--authority", parts.make.authority,
                                     "Folder of ca.crt and ca.key; otherwise --folder has them");
  parts.certificate_make
      ->add_option("--role", parts.make.roles,
                   "Whom it is for: coordinator, shard/N, worker/NAME or operator; may be "
                   "repeated; none: an "
                   "authority alone")
      ->allow_extra_args(false);
  parts.certificate_make->add_option("--dns", parts.make.hosts, "A name it is reached by")
      ->allow_extra_args(false);
  parts.certificate_make->add_option("--ip", parts.addresses, "An address it is reached by")
      ->allow_extra_args(false);
  parts.certificate_make->add_option("--life", parts.make.life, "How long it is good")
      ->capture_default_str();
  parts.certificate_show =
      certificate->add_subcommand("show", "Show what a folder's credentials say.");
  parts.certificate_show->add_option("folder", parts.show_folder, "Folder of tls.crt")->required();
}

SecurityCommands::~SecurityCommands() = default;

std::optional<int> SecurityCommands::Run() {
  Parts& parts = *parts_;
  if (parts.create->parsed()) return CreateTokenCommand(parts.target, parts.token);
  if (parts.list->parsed()) return ListTokensCommand(parts.target);
  if (parts.revoke->parsed()) return RevokeTokenCommand(parts.target, parts.token_id);
  if (parts.expel->parsed())
    return ExpelCommand(parts.target, parts.worker, parts.undo, parts.whole);
  if (parts.certificate_make->parsed()) {
    parts.make.hosts.insert(parts.make.hosts.end(), parts.addresses.begin(), parts.addresses.end());
    return ExitStatus("longwave certificate make", MakeCertificate(parts.make));
  }
  if (parts.certificate_show->parsed()) {
    const auto lines = ShowCertificate(parts.show_folder);
    if (!lines.ok()) return ExitStatus("longwave certificate show", lines.status());
    for (const std::string& line : *lines) PrintLine(stdout, line);
    return 0;
  }
  return std::nullopt;
}

}  // namespace longwave
