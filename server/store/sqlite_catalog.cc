#include "server/store/sqlite_catalog.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/store/file_system.h"
#include "server/store/sqlite_database.h"

namespace longwave {
namespace {

constexpr SqliteFormat kFormat = {
    .what = "catalog",
    .application_id = 0x4c575344,  // "LWSD"
    .schema = kCatalogSchema,
    // EXTRA syncs the folder too when a transaction's journal goes, which is the commit.
    .pragmas = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;",
    .tables =
        "CREATE TABLE IF NOT EXISTS catalog (one INTEGER PRIMARY KEY CHECK (one = 1),"
        " run INTEGER NOT NULL, shard INTEGER NOT NULL, layout_hash INTEGER NOT NULL,"
        " settings TEXT NOT NULL, incarnation INTEGER NOT NULL, folder INTEGER NOT NULL);"
        "CREATE TABLE IF NOT EXISTS log_file (number INTEGER PRIMARY KEY,"
        " first_sequence INTEGER NOT NULL);"
        "CREATE TABLE IF NOT EXISTS snapshot (name TEXT PRIMARY KEY) WITHOUT ROWID;"};

absl::Status InsertAll(SqliteDatabase& database, const CatalogContents& contents) {
  SqliteStatement row(database);
  LONGWAVE_RETURN_IF_ERROR(row.Prepare("INSERT INTO catalog VALUES (1, ?, ?, ?, ?, ?, ?)"));
  row.Bind(contents.identity.run).Bind(uint64_t{contents.identity.shard});
  row.Bind(contents.identity.layout_hash).Bind(contents.settings).Bind(contents.incarnation);
  row.Bind(contents.folder);
  LONGWAVE_RETURN_IF_ERROR(row.Finish());
  for (const CatalogLogFile& file : contents.log_files) {
    SqliteStatement insert(database);
    LONGWAVE_RETURN_IF_ERROR(insert.Prepare("INSERT INTO log_file VALUES (?, ?)"));
    insert.Bind(uint64_t{file.number}).Bind(file.first_sequence);
    LONGWAVE_RETURN_IF_ERROR(insert.Finish());
  }
  for (const std::string& name : contents.snapshots) {
    SqliteStatement insert(database);
    LONGWAVE_RETURN_IF_ERROR(insert.Prepare("INSERT INTO snapshot VALUES (?)"));
    LONGWAVE_RETURN_IF_ERROR(insert.Bind(name).Finish());
  }
  return absl::OkStatus();
}

class SqliteCatalog final : public CatalogBackend {
 public:
  explicit SqliteCatalog(const std::string& folder) : database_(JoinPath(folder, "shard.db")) {}

  absl::StatusOr<std::optional<CatalogContents>> Load() override {
    LONGWAVE_RETURN_IF_ERROR(database_.Open(kFormat));
    CatalogContents contents;
    SqliteStatement row(database_);
    LONGWAVE_RETURN_IF_ERROR(
        row.Prepare("SELECT run, shard, layout_hash, settings, incarnation, folder FROM catalog"));
    LONGWAVE_ASSIGN_OR_RETURN(const bool saved, row.Step());
    if (!saved) return std::nullopt;
    contents.identity.run = row.Word(0);
    contents.identity.shard = static_cast<uint32_t>(row.Word(1));
    contents.identity.layout_hash = row.Word(2);
    contents.settings = row.Text(3);
    contents.incarnation = row.Word(4);
    contents.folder = row.Word(5);
    SqliteStatement files(database_);
    LONGWAVE_RETURN_IF_ERROR(
        files.Prepare("SELECT number, first_sequence FROM log_file ORDER BY number"));
    for (;;) {
      LONGWAVE_ASSIGN_OR_RETURN(const bool more, files.Step());
      if (!more) break;
      contents.log_files.push_back({static_cast<uint32_t>(files.Word(0)), files.Word(1)});
    }
    SqliteStatement names(database_);
    LONGWAVE_RETURN_IF_ERROR(names.Prepare("SELECT name FROM snapshot ORDER BY name"));
    for (;;) {
      LONGWAVE_ASSIGN_OR_RETURN(const bool more, names.Step());
      if (!more) break;
      contents.snapshots.push_back(names.Text(0));
    }
    return contents;
  }

  absl::Status Save(const CatalogContents& contents) override {
    LONGWAVE_RETURN_IF_ERROR(database_.Open(kFormat));
    absl::Status status = database_.Run(
        "BEGIN IMMEDIATE; DELETE FROM catalog; DELETE FROM log_file; DELETE FROM snapshot;");
    if (status.ok()) status = InsertAll(database_, contents);
    if (status.ok()) status = database_.Run("COMMIT");
    // What went wrong first is what counts; a transaction that SQLite ended itself is gone already.
    if (!status.ok()) database_.Run("ROLLBACK").IgnoreError();
    return status;
  }

 private:
  SqliteDatabase database_;
};

}  // namespace

std::unique_ptr<CatalogBackend> MakeSqliteCatalog(std::string folder) {
  return std::make_unique<SqliteCatalog>(folder);
}

}  // namespace longwave
