#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/security/certificate_command.h"
#include "cli/security/member_commands.h"
#include "common/base/print.h"
#include "common/command_line/command_line.h"

namespace longwave {

namespace {

struct Options {
  Target target;
  TokenCreateOptions token;
  std::string token_id;
  std::string worker;
  bool undo = false;
  bool whole = false;  // --all-of-it
  CertificateMakeOptions make;
  std::string show_folder;
};

int Show(const std::string& folder) {
  const auto lines = ShowCertificate(folder);
  if (!lines.ok()) return ExitStatus("longwave certificate show", lines.status());
  for (const std::string& line : *lines) PrintLine(stdout, line);
  return 0;
}

}  // namespace

void AddSecurityCommands(CLI::App* app, Commands* commands) {
  const auto options = std::make_shared<Options>();
  // A command of an operator, which takes the coordinator's address and the credentials.
  const auto add = [&](CLI::App* parent, const char* name, const char* what,
                       std::function<int()> run) {
    CLI::App* const command = parent->add_subcommand(name, what);
    command->add_option("address", options->target.address, "host:port of the coordinator")
        ->required();
    command->add_option("--security", options->target.security,
                        "Folder of an operator's credentials: ca.crt, tls.crt, tls.key");
    commands->emplace_back(command, std::move(run));
    return command;
  };
  CLI::App* const token = app->add_subcommand("token", "Let processes join a secured run.");
  token->require_subcommand(1);
  CLI::App* const create = add(token, "create", "Make a token and print it.", [options] {
    return ExitStatus("longwave token create", CreateToken(options->target, options->token));
  });
  create
      ->add_option("--life", options->token.life, "How long the token is good, such as 30m or 24h")
      ->capture_default_str();
  create->add_option("--uses", options->token.uses, "How many workers may join with the token")
      ->capture_default_str();
  create->add_option("--name", options->token.name,
                     "Name of the only worker that the token admits, even if another key had that "
                     "name [any worker, under a name of its own]");
  create->add_option("--shard", options->token.shard, "Index of the shard that the token admits")
      ->check(CLI::NonNegativeNumber);
  add(token, "list", "Show tokens, and who was expelled.",
      [options] { return ExitStatus("longwave token list", ListTokens(options->target)); });
  add(token, "revoke", "Revoke a token, so that it admits nobody any more.",
      [options] {
        return ExitStatus("longwave token revoke", RevokeToken(options->target, options->token_id));
      })
      ->add_option("id", options->token_id, "Id of the token, as `token list` shows it")
      ->required();

  CLI::App* const expel = add(
      app, "expel", "Expel a worker from a run, with its certificate and its tokens.", [options] {
        return ExitStatus("longwave expel",
                          Expel(options->target, options->worker, options->undo, options->whole));
      });
  expel->add_option("worker", options->worker, "Name of the worker")->required();
  expel->add_flag("--undo", options->undo, "Let the name take part again");
  expel->add_flag(
      "--all-of-it", options->whole,
      "Expel the worker even if its certificate names others, who are all expelled with it");

  CLI::App* const certificate =
      app->add_subcommand("certificate", "Make and show certificates, without a coordinator.");
  certificate->require_subcommand(1);
  CLI::App* const make = certificate->add_subcommand(
      "make", "Make a key and a certificate, and an authority if there is none.");
  make->add_option("--folder", options->make.folder, "Gets ca.crt, tls.crt and tls.key")
      ->required()
      ->check(NotEmpty());
  make->add_option("--authority", options->make.authority,
                   "Folder of ca.crt and ca.key; otherwise --folder has them");
  make->add_option("--role", options->make.roles,
                   "Role of the certificate: coordinator, shard/N, worker/NAME or operator; may be "
                   "repeated; none: make only an authority")
      ->allow_extra_args(false);
  make->add_option("--dns", options->make.names, "Host name by which the process is reached")
      ->allow_extra_args(false);
  make->add_option("--ip", options->make.addresses, "Address by which the process is reached")
      ->allow_extra_args(false);
  make->add_option("--life", options->make.life, "How long it is good")->capture_default_str();
  commands->emplace_back(make, [options] {
    return ExitStatus("longwave certificate make", MakeCertificate(options->make));
  });
  CLI::App* const show =
      certificate->add_subcommand("show", "Show what a folder's credentials say.");
  show->add_option("folder", options->show_folder, "Folder of tls.crt")
      ->required()
      ->check(NotEmpty());
  commands->emplace_back(show, [options] { return Show(options->show_folder); });
}

}  // namespace longwave
