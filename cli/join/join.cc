#include "cli/join/join.h"

#include <cstdio>
#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/doctor/examine.h"
#include "cli/doctor/report.h"
#include "cli/programs/programs.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/this_machine.h"
#include "common/base/utf8.h"
#include "common/config/gpt_shape.h"
#include "common/config/key_types.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/join.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"
#include "common/security/token.h"

namespace longwave {
namespace {

absl::StatusOr<std::string> TokenOf(const JoinOptions& options) {
  if (!options.token.empty() && !options.token_file.empty())
    return InvalidArgument("got --token and --token-file, wanted one of them");
  std::string token = options.token;
  if (options.token_file == "-") {
    std::getline(std::cin, token);
  } else if (!options.token_file.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(token, ReadTextFile(options.token_file));
  }
  return std::string(absl::StripAsciiWhitespace(token));
}

// Whether this program lays out the run's model as the other workers do. The coordinator would
// refuse a difference only after registration.
absl::Status CheckManifest(const std::string& configuration,
                           const std::optional<Manifest>& manifest) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config,
                            ParseConfig(configuration, "the coordinator's configuration"));
  if (!manifest || config.model.kind != "gpt") return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(const Manifest own, GptManifest(config.model));
  if (HashOf(own) == HashOf(*manifest)) return absl::OkStatus();
  return FailedPrecondition(
      "this longwave makes another model of the run's configuration than its workers: ",
      FirstDifference(own, *manifest), "; wanted the run's own version");
}

absl::StatusOr<Joined> Redeem(const JoinOptions& options, const JoinedFolder& folder,
                              const std::string& token) {
  const Joined joined{.coordinator = options.address,
                      .name = options.name.empty() ? NameOfThisMachine() : options.name};
  LONGWAVE_RETURN_IF_ERROR(MakeSecretFolder(folder.path()));
  LONGWAVE_ASSIGN_OR_RETURN(
      const JoinedRun run,
      JoinRun(options.address, token, WorkerIdentity(joined.name), folder.security_folder()));
  LONGWAVE_RETURN_IF_ERROR(CheckManifest(run.configuration, run.manifest));
  LONGWAVE_RETURN_IF_ERROR(folder.Save(joined, run.configuration));
  return joined;
}

// Whether the token belongs to the run of the folder's credentials, if any.
absl::Status CheckSameRun(const std::string& token_text, const JoinedFolder& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const Token token, ParseToken(token_text));
  const absl::StatusOr<std::string> pem =
      ReadTextFile(absl::StrCat(folder.security_folder(), "/", kAuthorityFile));
  if (absl::IsNotFound(pem.status())) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(pem.status());
  const auto authorities = ReadCertificates(*pem);
  if (!authorities.ok()) return absl::OkStatus();  // unreadable: joining writes it anew
  std::string known;
  for (const CertificateInfo& authority : *authorities) {
    if (TokenFingerprint(authority) == token.authority) return absl::OkStatus();
    absl::StrAppend(&known, known.empty() ? "" : ", ",
                    Hex(std::span(authority.fingerprint).first(6)));
  }
  return FailedPrecondition(folder.path(), " is the folder of another run (authority ", known,
                            ", the token's ", Hex(std::span(token.authority).first(6)),
                            "): give --state-dir another folder, or remove it");
}

// Examines the machine, prints the findings, and returns whether none failed.
absl::StatusOr<bool> IsFit(const JoinOptions& options, const JoinedFolder& folder,
                           const std::string& binaries, bool is_joined) {
  Patient patient{.binaries = binaries,
                  .state_dir = folder.path(),
                  .coordinator = options.address,
                  .data = options.data,
                  .device = options.device};
  if (is_joined) {
    patient.credentials = folder.security_folder();
    LONGWAVE_ASSIGN_OR_RETURN(patient.config,
                              LoadConfig(folder.config_file(), WorkerOverrides(options, folder)));
  }
  const std::vector<Finding> findings = Examine(patient);
  for (const std::string& line : ReportLines(findings)) PrintLine(stdout, line);
  return Worst(findings) != Finding::Verdict::kFailed;
}

absl::Status DryRun(const JoinOptions& options, const JoinedFolder& folder,
                    const std::string& binaries) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::optional<Joined> known, folder.Load());
  LONGWAVE_ASSIGN_OR_RETURN(const bool is_fit, IsFit(options, folder, binaries, known.has_value()));
  const Joined joined{.coordinator = options.address,
                      .name = known                  ? known->name
                              : options.name.empty() ? NameOfThisMachine()
                                                     : options.name};
  PrintLine(stdout, "would ", known ? "" : "redeem the token and ", "run ",
            absl::StrJoin(WorkerCommand(options, joined, folder, binaries), " "));
  if (is_fit) return absl::OkStatus();
  return FailedPrecondition("a check failed, see above; nothing was changed");
}

// Whether the run has finished, as far as the coordinator tells. The shards of a finished run have
// ended, so that a check of the links would fail.
absl::StatusOr<bool> HasFinished(const Joined& joined, const JoinedFolder& folder) {
  const absl::StatusOr<RunStatus> run =
      CoordinatorClient::Connect(joined.coordinator, kCommandDeadline, folder.security_folder())
          ->GetStatus();
  if (!run.ok() || !IsOver(run->phase)) return false;  // the checks report why
  if (run->phase == RunPhase::kFinished) return true;
  return FailedPrecondition("the run has ",
                            run->phase == RunPhase::kFailed ? "failed" : "been stopped",
                            run->failure.empty() ? "" : ": ", run->failure);
}

}  // namespace

absl::Status Join(const JoinOptions& options) {
  LONGWAVE_RETURN_IF_ERROR(CheckCoordinatorAddress(options.address));
  LONGWAVE_ASSIGN_OR_RETURN(const std::string binaries, WorkerFolder());
  const JoinedFolder folder = options.state_dir.empty() ? JoinedFolder::Default(options.address)
                                                        : JoinedFolder(options.state_dir);
  if (options.dry_run) return DryRun(options, folder, binaries);
  LONGWAVE_ASSIGN_OR_RETURN(const Joined joined, RedeemOrResume(options, folder));
  PrintLine(stdout, "joined   ", joined.coordinator, " as ", joined.name, ", in ", folder.path());
  LONGWAVE_ASSIGN_OR_RETURN(const bool has_finished, HasFinished(joined, folder));
  if (has_finished) {
    PrintLine(stdout, "the run has finished already: there is nothing left to train");
    return absl::OkStatus();
  }
  LONGWAVE_ASSIGN_OR_RETURN(const bool is_fit, IsFit(options, folder, binaries, true));
  if (!is_fit) {
    return FailedPrecondition(
        "a check failed, see above: mend it and give the same command again; its "
        "token is no longer needed, since the credentials are in ",
        folder.security_folder());
  }
  return Become(WorkerCommand(options, joined, folder, binaries));
}

Overrides WorkerOverrides(const JoinOptions& options, const JoinedFolder& folder) {
  Overrides overrides = {"security.mode=on",
                         absl::StrCat("security.folder=", folder.security_folder())};
  if (!options.data.empty()) overrides.push_back(absl::StrCat("data.path=", options.data));
  if (!options.device.empty()) overrides.push_back(absl::StrCat("train.device=", options.device));
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  return overrides;
}

std::vector<std::string> WorkerCommand(const JoinOptions& options, const Joined& joined,
                                       const JoinedFolder& folder, const std::string& binaries) {
  std::vector<std::string> command = {absl::StrCat(binaries, "/longwave-worker"),
                                      "--config",
                                      folder.config_file(),
                                      "--coordinator",
                                      joined.coordinator,
                                      "--name",
                                      joined.name,
                                      "--state-dir",
                                      folder.worker_folder(),
                                      "--run-dir",
                                      folder.path()};
  for (const std::string& setting : WorkerOverrides(options, folder)) {
    command.push_back("--set");
    command.push_back(setting);
  }
  if (options.threads > 0) {
    command.push_back("--threads");
    command.push_back(absl::StrCat(options.threads));
  }
  return command;
}

absl::StatusOr<Joined> RedeemOrResume(const JoinOptions& options, const JoinedFolder& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string token, TokenOf(options));
  LONGWAVE_ASSIGN_OR_RETURN(const std::optional<Joined> known, folder.Load());
  if (!known) {
    if (!token.empty()) return Redeem(options, folder, token);
    if (!options.token_file.empty()) {
      return InvalidArgument("--token-file: got no token in ", Quotable(options.token_file),
                             ", wanted what `longwave token create` printed");
    }
    return FailedPrecondition(
        "nobody has joined in ", folder.path(),
        " yet: wanted --token T, of `longwave token create` at the coordinator");
  }
  if (!options.name.empty() && options.name != known->name) {
    return FailedPrecondition("got --name ", options.name, ", but ", folder.path(),
                              " is the folder of ", known->name,
                              ": give each worker a --state-dir of its own");
  }
  if (!token.empty()) LONGWAVE_RETURN_IF_ERROR(CheckSameRun(token, folder));
  const absl::Status good =
      CheckCredentials(folder.security_folder(), WorkerIdentity(known->name), absl::Now()).status();
  // The coordinator's address may have changed; its authority proves that the run is the same.
  const Joined joined{.coordinator = options.address, .name = known->name};
  if (good.ok()) return joined;
  if (!token.empty()) {
    JoinOptions again = options;
    again.name = known->name;
    return Redeem(again, folder, token);
  }
  return FailedPrecondition(good.message(), "; wanted a new --token T for ", known->name);
}

}  // namespace longwave
