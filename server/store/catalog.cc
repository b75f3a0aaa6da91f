#include "server/store/catalog.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/catalog_format.h"

namespace longwave {
namespace {

constexpr absl::string_view kCatalogName = "shard.catalog";
constexpr uint64_t kBytesMax = 64 << 20;

// The first line in which two settings differ, for the error message.
std::string FirstDifferentLine(std::string_view got, std::string_view wanted) {
  const auto [at, at_wanted] = std::ranges::mismatch(got, wanted);
  const auto line_begin =
      std::find(std::make_reverse_iterator(at), got.rend(), '\n').base() - got.begin();
  const auto line_of = [&](std::string_view text) {
    const std::string_view rest = text.substr(std::min<size_t>(line_begin, text.size()));
    return rest.substr(0, rest.find('\n'));
  };
  return absl::StrCat("got \"", std::string(line_of(got)), "\", wanted \"",
                      std::string(line_of(wanted)), "\"");
}

}  // namespace

absl::StatusOr<std::optional<CatalogContents>> LoadCatalog(FileSystem& files,
                                                           const std::string& folder) {
  LONGWAVE_RETURN_IF_ERROR(RefuseOlderState(files, folder, "shard.db"));
  const std::string path = JoinPath(folder, kCatalogName);
  const absl::StatusOr<Buffer> bytes = ReadWhole(files, path, kBytesMax);
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<CatalogContents> contents = DecodeCatalog(bytes->bytes());
  if (!contents.ok()) return Prefixed(path, contents.status());
  return *std::move(contents);
}

absl::StatusOr<std::unique_ptr<Catalog>> Catalog::Open(FileSystem* files, std::string folder,
                                                       const StoreIdentity& identity,
                                                       const std::string& settings, uint64_t word) {
  LONGWAVE_ASSIGN_OR_RETURN(std::optional<CatalogContents> loaded, LoadCatalog(*files, folder));
  CatalogContents contents;
  if (loaded.has_value()) {
    contents = *std::move(loaded);
    LONGWAVE_RETURN_IF_ERROR(CheckIdentity(folder, contents.identity, identity));
    if (!settings.empty() && contents.settings != settings) {
      return FailedPrecondition(folder, ": belongs to a run with other settings: ",
                                FirstDifferentLine(contents.settings, settings));
    }
  } else {
    contents.identity = identity;
    contents.folder = word;
    contents.settings = settings;
  }
  ++contents.incarnation;
  std::unique_ptr<Catalog> catalog(new Catalog(files, std::move(folder)));
  LONGWAVE_RETURN_IF_ERROR(catalog->Replace(std::move(contents)));
  return catalog;
}

absl::Status Catalog::Replace(CatalogContents contents) {
  const std::vector<std::byte> bytes = EncodeCatalog(contents);
  const std::array<std::span<const std::byte>, 1> pieces = {bytes};
  LONGWAVE_RETURN_IF_ERROR(Publish(*files_, folder_, kCatalogName, pieces));
  contents_ = std::move(contents);
  return absl::OkStatus();
}

absl::Status Catalog::AddLogFile(const CatalogLogFile& file) {
  CatalogContents contents = contents_;
  LONGWAVE_CHECK(contents.log_files.empty() || contents.log_files.back().number + 1 == file.number);
  contents.log_files.push_back(file);
  return Replace(std::move(contents));
}

absl::Status Catalog::DropLogFilesBefore(uint32_t number) {
  CatalogContents contents = contents_;
  if (std::erase_if(contents.log_files,
                    [&](const CatalogLogFile& file) { return file.number < number; }) == 0) {
    return absl::OkStatus();
  }
  return Replace(std::move(contents));
}

absl::Status Catalog::SetSnapshots(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  if (names == contents_.snapshots) return absl::OkStatus();
  CatalogContents contents = contents_;
  contents.snapshots = std::move(names);
  return Replace(std::move(contents));
}

}  // namespace longwave
