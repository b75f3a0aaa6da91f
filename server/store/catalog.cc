#include "server/store/catalog.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/control/longer_run.h"
#include "common/wire/crc32c.h"
#include "common/wire/field_codec.h"

namespace longwave {
namespace {

constexpr absl::string_view kCatalogName = "shard.catalog";
constexpr uint64_t kBytesMax = 64 << 20;
constexpr uint32_t kCatalogMagic = 0x3143574c;  // "LWC1"
constexpr uint32_t kCatalogSchema = 3;

// The bytes of a catalog's file (proto/LOG.md): magic, schema, length and CRC of the rest; then
// these fields. Another schema is an error.
void CatalogFields(auto& contents, auto& code) {
  code(contents.identity.run, contents.identity.shard, contents.identity.layout_hash,
       contents.folder, contents.settings, contents.incarnation, contents.log_files,
       contents.snapshots);
}

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

std::vector<std::byte> EncodeCatalog(const CatalogContents& contents) {
  FieldWriter body, all;
  CatalogFields(contents, body);
  all(kCatalogMagic, kCatalogSchema, uint64_t{body.bytes().size()}, Crc32c(body.bytes()));
  all.PutBytes(body.bytes());
  return all.Take();
}

// FailedPrecondition: another schema, or a foreign file. DataLoss: damaged.
absl::StatusOr<CatalogContents> DecodeCatalog(std::span<const std::byte> bytes) {
  FieldReader in(bytes);
  if (const auto magic = in.Get<uint32_t>(); magic != kCatalogMagic) {
    return FailedPrecondition(absl::StrFormat("is no catalog of ours: magic: got %08x, wanted %08x",
                                              magic, kCatalogMagic));
  }
  if (const auto schema = in.Get<uint32_t>(); schema != kCatalogSchema) {
    return FailedPrecondition("schema: got ", schema, ", wanted ", kCatalogSchema);
  }
  const auto length = in.Get<uint64_t>();
  const auto crc = in.Get<uint32_t>();
  if (!in.ok() || in.left() != length) {
    return DataLoss("got ", in.left(), " bytes behind its head, wanted ", length);
  }
  if (const uint32_t wanted = Crc32c(bytes.last(length)); crc != wanted) {
    return DataLoss(absl::StrFormat("CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  CatalogContents contents;
  CatalogFields(contents, in);
  if (!in.done()) return DataLoss("its length is not what its fields say");
  return contents;
}

}  // namespace

absl::StatusOr<std::optional<CatalogContents>> LoadCatalog(FileSystem& files,
                                                           const std::string& folder) {
  LONGWAVE_RETURN_IF_ERROR(RefuseOlderState(files, folder, "shard.db"));
  const std::string path = JoinPath(folder, kCatalogName);
  absl::StatusOr<CatalogContents> contents =
      ReadUntilSure([&]() -> absl::StatusOr<CatalogContents> {
        LONGWAVE_ASSIGN_OR_RETURN(const Buffer bytes, ReadWhole(files, path, kBytesMax));
        absl::StatusOr<CatalogContents> decoded = DecodeCatalog(bytes.bytes());
        return decoded.ok() ? std::move(decoded) : Prefixed(path, decoded.status());
      });
  if (absl::IsNotFound(contents.status())) return std::nullopt;
  LONGWAVE_RETURN_IF_ERROR(contents.status());
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
    const bool is_same = settings.empty() || contents.settings == settings;
    if (!is_same && !IsLongerRun(contents.settings, settings)) {
      return FailedPrecondition(folder, ": belongs to a run with other settings: ",
                                FirstDifferentLine(contents.settings, settings));
    }
    if (!is_same) contents.settings = settings;
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
  std::ranges::sort(names);
  if (names == contents_.snapshots) return absl::OkStatus();
  CatalogContents contents = contents_;
  contents.snapshots = std::move(names);
  return Replace(std::move(contents));
}

}  // namespace longwave
