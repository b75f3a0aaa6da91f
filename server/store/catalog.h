#ifndef LONGWAVE_SERVER_STORE_CATALOG_H_
#define LONGWAVE_SERVER_STORE_CATALOG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/fields.h"
#include "server/store/file_system.h"
#include "server/store/store_identity.h"

namespace longwave {

struct CatalogLogFile {
  uint32_t number = 0;
  uint64_t first_sequence = 0;
  LONGWAVE_FIELDS(number, first_sequence)

  bool operator==(const CatalogLogFile&) const = default;
};

// The shard's record of its folder, apart from the immutable files: a few dozen rows.
struct CatalogContents {
  StoreIdentity identity;
  uint64_t folder = 0;       // random word that distinguishes folders of the same identity
  std::string settings;      // the run's configuration as text, for people and for replays
  uint64_t incarnation = 0;  // how often the folder was opened
  std::vector<CatalogLogFile> log_files;  // files to read: by number, contiguous
  std::vector<std::string> snapshots;     // names, sorted

  bool operator==(const CatalogContents&) const = default;
};

// The contents of the folder's catalog; nothing if it has none yet. FailedPrecondition: another
// schema, a foreign file, or an older version's folder. DataLoss: damaged.
absl::StatusOr<std::optional<CatalogContents>> LoadCatalog(FileSystem& files,
                                                           const std::string& folder);

// The catalog of an open folder: a file that each save replaces. After a failed save `contents` are
// the ones before it, and the disk has these or the new ones. Readers of a folder cope with either.
class Catalog {
 public:
  // Increments the incarnation. FailedPrecondition: the folder belongs to another run, shard or
  // layout, or its settings differ; the message says what was got and wanted. An empty `settings`
  // accepts the folder's. `word`: the folder's random word if the catalog is created now. `files`
  // outlives the catalog.
  static absl::StatusOr<std::unique_ptr<Catalog>> Open(FileSystem* files, std::string folder,
                                                       const StoreIdentity& identity,
                                                       const std::string& settings,
                                                       uint64_t word = 0);

  const CatalogContents& contents() const { return contents_; }

  // Adds a new log file, whose number follows the last one's.
  absl::Status AddLogFile(const CatalogLogFile& file);
  // Removes the files before `number` from the catalog, after which they may be deleted.
  absl::Status DropLogFilesBefore(uint32_t number);
  absl::Status SetSnapshots(std::vector<std::string> names);

 private:
  Catalog(FileSystem* files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  // Atomic, and durable on return.
  absl::Status Replace(CatalogContents contents);

  FileSystem* const files_;
  const std::string folder_;
  CatalogContents contents_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_CATALOG_H_
