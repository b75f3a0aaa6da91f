#include "cli/security/cluster_credentials.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"

namespace longwave {
namespace {

// No process renews it, and people use it.
constexpr absl::Duration kOperatorLife = absl::Hours(24 * 366);

}  // namespace

std::string ClusterCredentials::FolderOf(const std::string& process) const {
  return absl::StrCat(folder_, "/", process);
}

std::string ClusterCredentials::operator_folder() const {
  return is_on() ? FolderOf("operator") : "";
}

absl::Status ClusterCredentials::Make(const RunConfig& config) const {
  if (!is_on()) return absl::OkStatus();
  const absl::Time now = absl::Now();
  const absl::Duration life = absl::Seconds(config.security.certificate_life_s);
  LONGWAVE_RETURN_IF_ERROR(MakeSecretFolder(folder_));
  // A resumed run keeps its authority, since workers that joined have its certificates.
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Authority> authority,
                            LoadOrMakeAuthority(FolderOf("authority"), now));
  const auto make = [&](const std::string& process, const Identity& identity,
                        const std::vector<std::string>& hosts,
                        absl::Duration for_long) -> absl::Status {
    LONGWAVE_ASSIGN_OR_RETURN(const Credentials credentials,
                              MakeCredentials(*authority, {identity}, hosts, {now, for_long}));
    return WriteCredentials(FolderOf(process), credentials);
  };
  const std::string& coordinator = config.cluster.coordinator;
  LONGWAVE_RETURN_IF_ERROR(make("coordinator", CoordinatorIdentity(),
                                HostsOfThisMachine(coordinator.substr(0, coordinator.rfind(':'))),
                                life));
  const std::vector<std::string> shard_hosts = HostsOfThisMachine(config.cluster.shard_host);
  for (uint32_t i = 0; i < config.run.shards; ++i)
    LONGWAVE_RETURN_IF_ERROR(make(absl::StrCat("shard-", i), ShardIdentity(i), shard_hosts, life));
  for (uint32_t i = 0; i < config.run.workers; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    LONGWAVE_RETURN_IF_ERROR(make(name, WorkerIdentity(name), {}, life));
  }
  return make("operator", OperatorIdentity(), {}, std::max(life, kOperatorLife));
}

std::vector<std::string> ClusterCredentials::ArgumentsOf(const std::string& process) const {
  // The mode is explicit; otherwise each process would derive it from its own addresses.
  if (!is_on()) return {"--set", "security.mode=off"};
  std::vector<std::string> arguments = {"--set", "security.mode=on", "--set",
                                        absl::StrCat("security.folder=", FolderOf(process))};
  if (process == "coordinator") {
    arguments.insert(arguments.end(),
                     {"--set", absl::StrCat("security.authority=", FolderOf("authority"))});
  }
  return arguments;
}

}  // namespace longwave
