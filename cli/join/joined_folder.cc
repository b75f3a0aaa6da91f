#include "cli/join/joined_folder.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/json_text.h"
#include "common/base/errors.h"
#include "common/base/new_file.h"
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
  Joined joined{.coordinator = TextAt(json, "coordinator"), .name = TextAt(json, "name")};
  if (joined.coordinator.empty() || joined.name.empty()) {
    return InvalidArgument(joined_file(),
                           ": got no \"coordinator\" and \"name\" in it, wanted what "
                           "`longwave join` writes; remove the folder and join again");
  }
  return joined;
}

absl::Status JoinedFolder::Save(const Joined& joined, const std::string& configuration) const {
  LONGWAVE_RETURN_IF_ERROR(MakeSecretFolder(path_));
  LONGWAVE_RETURN_IF_ERROR(WriteFile(config_file(), configuration, kPublicFile));
  // Written last, so that its presence proves the others.
  return WriteFile(joined_file(),
                   JsonText({{"coordinator", joined.coordinator}, {"name", joined.name}}),
                   kPublicFile);
}

}  // namespace longwave
