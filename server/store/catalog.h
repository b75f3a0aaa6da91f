#ifndef LONGWAVE_SERVER_STORE_CATALOG_H_
#define LONGWAVE_SERVER_STORE_CATALOG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/file_system.h"
#include "server/store/store_identity.h"

namespace longwave {

// Of what a catalog holds. A catalog with another schema is refused.
inline constexpr uint32_t kCatalogSchema = 3;

struct CatalogLogFile {
  uint32_t number = 0;
  uint64_t first_sequence = 0;

  bool operator==(const CatalogLogFile&) const = default;
};

// All that a shard knows about its folder, apart from the immutable files themselves. Small: a few
// dozen rows.
struct CatalogContents {
  StoreIdentity identity;
  uint64_t folder = 0;       // random word that tells this folder from others of the same identity
  std::string settings;      // the run's configuration as text, for people and for replays
  uint64_t incarnation = 0;  // how often the folder has been opened
  std::vector<CatalogLogFile> log_files;  // that are to be read, by number, contiguous
  std::vector<std::string> snapshots;     // names, sorted

  bool operator==(const CatalogContents&) const = default;
};

// Where the contents lie (file_catalog.h).
class CatalogBackend {
 public:
  virtual ~CatalogBackend() = default;
  // Nothing: never saved. FailedPrecondition: another schema, a file that is no catalog of ours, or
  // an older version's folder. DataLoss: damaged.
  virtual absl::StatusOr<std::optional<CatalogContents>> Load() = 0;
  // All or nothing, and durable when it returns.
  virtual absl::Status Save(const CatalogContents& contents) = 0;
};

// The catalog of one open folder. After a failed save the contents here are those before it; on the
// disk they are these or the new ones, and whoever reads a folder does with either.
class Catalog {
 public:
  // Counts the incarnation. FailedPrecondition: the folder belongs to another run, shard or layout
  // (what was got and wanted), or its settings are others. An empty `settings` takes what is there.
  // `where` is the folder's name, for messages; `folder` its random word, should it be made now.
  static absl::StatusOr<std::unique_ptr<Catalog>> Open(std::string where,
                                                       std::unique_ptr<CatalogBackend> backend,
                                                       const StoreIdentity& identity,
                                                       const std::string& settings,
                                                       uint64_t folder = 0);

  const CatalogContents& contents() const { return contents_; }

  // A log file that was just made; its number follows the last one's.
  absl::Status AddLogFile(const CatalogLogFile& file);
  // Forgets the files before `number`, so that they may be removed.
  absl::Status DropLogFilesBefore(uint32_t number);
  absl::Status SetSnapshots(std::vector<std::string> names);

 private:
  Catalog(std::unique_ptr<CatalogBackend> backend, CatalogContents contents)
      : backend_(std::move(backend)), contents_(std::move(contents)) {}
  absl::Status Replace(CatalogContents contents);

  std::unique_ptr<CatalogBackend> backend_;
  CatalogContents contents_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_CATALOG_H_
