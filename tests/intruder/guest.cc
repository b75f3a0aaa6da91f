#include "tests/intruder/guest.h"

#include <utility>

#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/rpc/join.h"

namespace longwave {

RegisterWorker Guest::Registration(uint64_t incarnation) const {
  return {.name = name,
          .identity = 1,
          .manifest = manifest,
          .layout_hash = layout.hash(),
          .incarnation = incarnation,
          .settings = BindingSettings(config),
          .data_key = keys.public_key};
}

std::optional<Guest> Admit(SecuredRun* run, const std::string& name) {
  const std::string folder = run->NewFolder();
  absl::StatusOr<JoinedRun> joined;
  Answer([&] {
    joined = JoinRun(run->address(), run->NewToken(), WorkerIdentity(name), folder);
    return joined.status();
  }).IgnoreError();
  auto config = ParseConfig(joined.ok() ? joined->configuration : "", "joined.yaml");
  if (!joined.ok() || !config.ok()) {
    ADD_FAILURE() << joined.status() << config.status();
    return std::nullopt;
  }
  // Before a worker has brought it, the coordinator has none.
  Manifest manifest =
      joined->manifest.has_value() ? *std::move(joined->manifest) : *GptManifest(config->model);
  Layout layout = *Layout::Create(manifest, LayoutOptionsFor(*config, manifest));
  return Guest{.name = name,
               .folder = folder,
               .config = *std::move(config),
               .manifest = std::move(manifest),
               .layout = std::move(layout),
               .keys = *MakeCurveKeys()};
}

}  // namespace longwave
