#include "cli/join/joined_folder.h"

#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/security/credentials.h"

namespace longwave {

JoinedFolder JoinedFolder::Default(const std::string& coordinator) {
  if (const char* const given = std::getenv("STATE_DIRECTORY"); given != nullptr && *given != 0) {
    // Several folders are separated by colons.
    const std::vector<std::string> folders = absl::StrSplit(given, ':');
    return JoinedFolder(folders.front());
  }
  std::string leaf = coordinator;
  for (char& c : leaf) {
    if (c == ':' || c == '/' || c == '[' || c == ']') c = '-';
  }
  const char* const home = std::getenv("HOME");
  const bool is_root = geteuid() == 0 || home == nullptr || *home == 0;
  return JoinedFolder(
      absl::StrCat(is_root ? "/var/lib/longwave/" : absl::StrCat(home, "/.longwave/"), leaf));
}

absl::StatusOr<std::optional<Joined>> JoinedFolder::Load() const {
  const absl::StatusOr<std::string> text = ReadTextFile(joined_file());
  if (absl::IsNotFound(text.status())) return std::nullopt;
  LONGWAVE_RETURN_IF_ERROR(text.status());
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto word = [&json](const char* key) -> std::string {
    if (!json.is_object() || !json.contains(key) || !json[key].is_string()) return "";
    return json[key].get<std::string>();
  };
  Joined joined{.coordinator = word("coordinator"), .name = word("name")};
  if (joined.coordinator.empty() || joined.name.empty()) {
    return InvalidArgument(joined_file(),
                           ": got no \"coordinator\" and \"name\" in it, wanted what "
                           "`longwave join` writes; remove the folder and join again");
  }
  return joined;
}

absl::Status JoinedFolder::Save(const Joined& joined, const std::string& configuration,
                                const std::string& manifest) const {
  LONGWAVE_RETURN_IF_ERROR(MakeSecretFolder(path_));
  LONGWAVE_RETURN_IF_ERROR(WriteTextFile(config_file(), configuration, Secrecy::kPublic));
  if (!manifest.empty())
    LONGWAVE_RETURN_IF_ERROR(WriteTextFile(manifest_file(), manifest, Secrecy::kPublic));
  const nlohmann::ordered_json json = {{"coordinator", joined.coordinator}, {"name", joined.name}};
  // Written last, so that its presence proves the others.
  return WriteTextFile(joined_file(), json.dump(2) + "\n", Secrecy::kPublic);
}

}  // namespace longwave
