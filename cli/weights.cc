#include "cli/weights.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/initial_weights.h"
#include "cli/run_folder.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/this_machine.h"
#include "common/config/config.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/join.h"
#include "worker/member/present_weights.h"
#include "worker/weights/safetensors.h"
#include "worker/weights/write_model.h"

namespace longwave {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(10);
constexpr absl::Duration kTokenLife = absl::Minutes(1);

// For a run whose shards answer no more.
constexpr char kFromFolders[] =
    "longwave replay FOLDER --weights FILE makes them from the shards' folders, as "
    "FOLDER/state/shard-0 and so on, wherever those are";

absl::Status CheckTrains(const RunStatus& run) {
  if (run.phase == RunPhase::kWaiting)
    return FailedPrecondition("the run has not begun, wanted one that trains");
  if (!IsOver(run.phase)) return absl::OkStatus();
  return FailedPrecondition(
      "the run is over (", Name(run.phase), "), and its shards have ended; ",
      run.model_file.empty()
          ? "the worker that validates has written the weights into its run folder if it was left"
          : absl::StrCat("the worker that validates has written the weights to ", run.model_file,
                         " on its machine"),
      "; ", kFromFolders);
}

}  // namespace

absl::Status WriteWeights(const Target& target, const std::string& file) {
  LONGWAVE_RETURN_IF_ERROR(NewFile(file).status());
  const std::unique_ptr<CoordinatorClient> client =
      CoordinatorClient::Connect(target.address, kCommandDeadline, target.security);
  const absl::StatusOr<RunStatus> status = client->GetStatus();
  if (absl::IsUnavailable(status.status())) {
    return Unavailable(status.status().message(), "; of a run that was parked or is over, ",
                       kFromFolders);
  }
  LONGWAVE_RETURN_IF_ERROR(status.status());
  LONGWAVE_RETURN_IF_ERROR(CheckTrains(*status));
  LONGWAVE_ASSIGN_OR_RETURN(const RunDescription run, client->GetRun());
  if (!run.manifest.has_value()) return Unavailable("the coordinator does not know the model yet");
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig of_run,
                            ParseConfig(run.configuration, "the coordinator's configuration"));
  LONGWAVE_RETURN_IF_ERROR(CheckPlace(file, of_run));
  LONGWAVE_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  // A temporary member for each machine, so that the run's list stays short.
  const std::string name = absl::StrCat("weights-", NameOfThisMachine());
  Overrides overrides = {absl::StrCat("cluster.coordinator=", target.address)};
  if (target.security.empty()) {
    overrides.push_back("security.mode=off");
  } else {
    LONGWAVE_ASSIGN_OR_RETURN(
        const NewToken token,
        client->CreateToken(
            {.life = kTokenLife, .uses = 1, .subject = absl::StrCat("worker/", name)}));
    LONGWAVE_RETURN_IF_ERROR(
        JoinRun(target.address, token.token, WorkerIdentity(name), folder.path()).status());
    overrides.insert(overrides.end(),
                     {"security.mode=on", absl::StrCat("security.folder=", folder.path())});
  }
  LONGWAVE_ASSIGN_OR_RETURN(
      const RunConfig config,
      ParseConfig(run.configuration, "the coordinator's configuration", overrides));
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout,
                            Layout::Create(*run.manifest, LayoutOptionsFor(config, *run.manifest)));
  std::vector<float> start;
  // For other runs the shards have a snapshot of the initial weights.
  if (config.run.start == "seed" && config.model.kind != "external") {
    const std::string config_file = folder.path() + "/config.yaml";
    LONGWAVE_RETURN_IF_ERROR(WriteFile(config_file, FormatConfig(config)));
    LONGWAVE_ASSIGN_OR_RETURN(const std::string initial,
                              MakeInitialWeights(config_file, folder.path()));
    LONGWAVE_ASSIGN_OR_RETURN(start, ReadWeights(initial, *run.manifest, layout));
  }
  LONGWAVE_ASSIGN_OR_RETURN(
      const PresentWeights weights,
      FetchPresentWeights(config, name, *run.manifest, std::move(start), kPatience));
  LONGWAVE_RETURN_IF_ERROR(
      WriteModel(file, config, *run.manifest, layout, weights.theta.data(), weights.steps));
  PrintLine(stdout, "wrote ", file, ": the model after round ", weights.rounds, " of ",
            FitsInterval(config) ? "about " : "",
            ExpectedRounds(config, weights.rounds, weights.steps), ", state ",
            FormatHash(weights.state_hash));
  return absl::OkStatus();
}

}  // namespace longwave
