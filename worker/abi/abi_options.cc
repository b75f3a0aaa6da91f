#include "worker/abi/abi_options.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/threads.h"
#include "common/config/config.h"
#include "common/config/key_types.h"
#include "common/rpc/join.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"
#include "common/security/token.h"
#include "common/wire/frame.h"
#include "worker/abi/abi_struct.h"
#include "worker/member/fetch_config.h"

namespace longwave {
namespace {

std::string Text(const char* text) { return text == nullptr ? "" : text; }

// Whether the folder trusts the authority of the token; otherwise the credentials are another
// run's.
bool TrustsAuthorityOf(const std::string& token, const std::string& folder) {
  const absl::StatusOr<Token> parsed = ParseToken(token);
  const absl::StatusOr<Credentials> credentials = ReadCredentials(folder);
  if (!parsed.ok() || !credentials.ok()) return false;
  const auto authorities = ReadCertificates(credentials->authority);
  return authorities.ok() && std::ranges::any_of(*authorities, [&](const CertificateInfo& info) {
           return TokenFingerprint(info) == parsed->authority;
         });
}

// Skips a token that was redeemed before.
absl::Status Redeem(const AbiOptions& options, absl::Duration patience, const std::string& folder,
                    const StopSignal& stop) {
  const Identity identity = WorkerIdentity(options.name);
  if (TrustsAuthorityOf(options.token, folder) &&
      CheckCredentials(folder, identity, absl::Now()).ok())
    return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(MakeSecretFolder(options.state_dir));
  return KeepTrying(patience, stop, [&] {
    return JoinRun(options.coordinator, options.token, identity, folder).status();
  });
}

}  // namespace

absl::StatusOr<AbiOptions> ReadOptions(const lw_options* options) {
  LONGWAVE_ASSIGN_OR_RETURN(const lw_options given, ReadStruct(options, "lw_options"));
  AbiOptions read{.coordinator = Text(given.coordinator),
                  .name = Text(given.name),
                  .token = std::string(absl::StripAsciiWhitespace(Text(given.token))),
                  .state_dir = Text(given.state_dir)};
  LONGWAVE_RETURN_IF_ERROR(Prefixed("coordinator", CheckCoordinatorAddress(read.coordinator)));
  if (!read.state_dir.empty()) {
    // The caller's working directory may change.
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::absolute(read.state_dir, error);
    if (error) return InvalidArgument("state_dir: got ", read.state_dir, ": ", error.message());
    read.state_dir = folder.string();
  }
  if (read.name.empty())
    return InvalidArgument("name: got none, wanted one that no other live worker has");
  if (!read.token.empty() && read.state_dir.empty()) {
    return InvalidArgument(
        "state_dir: got none beside a token, wanted a folder that keeps what the token gives");
  }
  if (given.metrics != nullptr) read.metrics = given.metrics;
  if (given.settings == nullptr && given.setting_count > 0)
    return InvalidArgument("settings: got NULL");
  for (size_t i = 0; i < given.setting_count; ++i) {
    if (given.settings[i] == nullptr) return InvalidArgument("settings: got NULL as number ", i);
    read.settings.emplace_back(given.settings[i]);
  }
  if (given.alike == nullptr && given.alike_count > 0) return InvalidArgument("alike: got NULL");
  for (size_t i = 0; i < given.alike_count; ++i) {
    const lw_alike& alike = given.alike[i];
    if (alike.name == nullptr) return InvalidArgument("alike: got NULL as the name of number ", i);
    read.alike.push_back({alike.name, alike.hash, Text(alike.summary)});
  }
  if (given.callbacks != nullptr) {
    LONGWAVE_ASSIGN_OR_RETURN(read.callbacks, ReadStruct(given.callbacks, "lw_callbacks"));
  }
  if (given.node == nullptr) return read;
  LONGWAVE_ASSIGN_OR_RETURN(read.node, ReadStruct(given.node, "lw_node"));
  const lw_node& node = read.node;
  if (node.ranks == 0 || node.ranks > NodeRank::kRanksMax || node.rank >= node.ranks) {
    return InvalidArgument("node: got rank ", node.rank, " of ", node.ranks,
                           ", wanted a rank of 1 to ", NodeRank::kRanksMax);
  }
  if (node.ranks > 1 && node.all_gather == nullptr)
    return InvalidArgument("node: got no all_gather, wanted one for several ranks");
  return read;
}

absl::StatusOr<Manifest> ReadManifest(const lw_tensor* tensors, size_t count) {
  if (tensors == nullptr && count > 0) return InvalidArgument("tensors: got NULL");
  Manifest manifest;
  for (size_t i = 0; i < count; ++i) {
    const lw_tensor& tensor = tensors[i];
    if (tensor.name == nullptr || (tensor.shape == nullptr && tensor.dimensions > 0))
      return InvalidArgument("tensor ", i, ": got NULL");
    manifest.tensors.push_back({tensor.name, {tensor.shape, tensor.shape + tensor.dimensions}});
  }
  LONGWAVE_RETURN_IF_ERROR(Validate(manifest));
  return manifest;
}

absl::StatusOr<const KernelOps*> OpsOf(int device) {
  if (device != LW_CPU && device != LW_CUDA) {
    return InvalidArgument("device: got ", device, ", wanted LW_CPU (0) or LW_CUDA (1)");
  }
  return OpsFor(device == LW_CUDA ? BackendKind::kCuda : BackendKind::kCpu);
}

absl::StatusOr<RunConfig> FetchConfig(const AbiOptions& options, const StopSignal& stop) {
  Overrides overrides;
  if (!options.token.empty()) {
    const std::string folder = FileIn(options.state_dir, "security");
    LONGWAVE_ASSIGN_OR_RETURN(const RunConfig own,
                              ParseConfig("{}", "the defaults", options.settings));
    LONGWAVE_RETURN_IF_ERROR(
        Redeem(options, absl::Seconds(own.cluster.start_timeout_s), folder, stop));
    overrides = {"security.mode=on", absl::StrCat("security.folder=", folder)};
  }
  overrides.insert(overrides.end(), options.settings.begin(), options.settings.end());
  LONGWAVE_ASSIGN_OR_RETURN(
      RunConfig config, FetchRunConfig(options.coordinator, overrides, options.state_dir, stop));
  config.cluster.coordinator = options.coordinator;
  if (config.train.threads == 0) config.train.threads = DefaultThreads();
  return config;
}

}  // namespace longwave
