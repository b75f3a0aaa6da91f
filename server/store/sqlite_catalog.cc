#include "server/store/sqlite_catalog.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/store/file_system.h"

namespace longwave {
namespace {

constexpr int64_t kApplicationId = 0x4c575344;  // "LWSD"

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS catalog (one INTEGER PRIMARY KEY CHECK (one = 1),"
    " run INTEGER NOT NULL, shard INTEGER NOT NULL, layout_hash INTEGER NOT NULL,"
    " settings TEXT NOT NULL, incarnation INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS log_file (number INTEGER PRIMARY KEY,"
    " first_sequence INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS snapshot (name TEXT PRIMARY KEY) WITHOUT ROWID;";

// One database connection; every call's error becomes a status that names the file.
class Database {
 public:
  explicit Database(std::string path) : path_(std::move(path)) {}
  ~Database() { sqlite3_close(db_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  sqlite3* get() const { return db_; }

  absl::Status Open() {
    sqlite3_close(std::exchange(db_, nullptr));  // of an attempt that failed
    if (sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) !=
        SQLITE_OK) {
      const absl::Status status = Error();
      sqlite3_close(std::exchange(db_, nullptr));
      return status;
    }
    // EXTRA syncs the folder too when a transaction's journal goes, which is the commit.
    return Run("PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;");
  }

  absl::Status Run(const std::string& sql) {
    if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return Error();
    return absl::OkStatus();
  }

  absl::Status Error() const {
    const std::string message = absl::StrCat(path_, ": ", sqlite3_errmsg(db_));
    switch (sqlite3_errcode(db_)) {
      case SQLITE_FULL:
        return absl::ResourceExhaustedError(message);
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        return absl::UnavailableError(message);
      case SQLITE_NOTADB:
        return absl::FailedPreconditionError(message);
      case SQLITE_CORRUPT:
        return absl::DataLossError(message);
      default:
        return absl::UnknownError(message);
    }
  }

 private:
  std::string path_;
  sqlite3* db_ = nullptr;
};

class Statement {
 public:
  explicit Statement(Database& database) : database_(database) {}
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  absl::Status Prepare(const char* sql) {
    if (sqlite3_prepare_v2(database_.get(), sql, -1, &statement_, nullptr) != SQLITE_OK) {
      return database_.Error();
    }
    return absl::OkStatus();
  }
  // Parameters in order; text must outlive the statement. That a binding fails means that memory is
  // out, and then the step fails too: NOT NULL.
  Statement& Bind(uint64_t word) {
    sqlite3_bind_int64(statement_, ++bound_, static_cast<sqlite3_int64>(word));
    return *this;
  }
  Statement& Bind(const std::string& text) {
    sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
    return *this;
  }
  // Whether there is a (further) row.
  absl::StatusOr<bool> Step() {
    const int result = sqlite3_step(statement_);
    if (result == SQLITE_ROW) return true;
    if (result == SQLITE_DONE) return false;
    return database_.Error();
  }
  absl::Status Finish() { return Step().status(); }

  uint64_t Word(int column) const {
    return static_cast<uint64_t>(sqlite3_column_int64(statement_, column));
  }
  std::string Text(int column) const {
    const unsigned char* text = sqlite3_column_text(statement_, column);
    if (text == nullptr) return "";
    return {reinterpret_cast<const char*>(text),
            static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
  }

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

absl::StatusOr<uint64_t> ReadPragma(Database& database, const char* sql) {
  Statement statement(database);
  LONGWAVE_RETURN_IF_ERROR(statement.Prepare(sql));
  LONGWAVE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Word(0) : 0;
}

absl::Status InsertAll(Database& database, const CatalogContents& contents) {
  Statement row(database);
  LONGWAVE_RETURN_IF_ERROR(row.Prepare("INSERT INTO catalog VALUES (1, ?, ?, ?, ?, ?)"));
  row.Bind(contents.identity.run).Bind(uint64_t{contents.identity.shard});
  row.Bind(contents.identity.layout_hash).Bind(contents.settings).Bind(contents.incarnation);
  LONGWAVE_RETURN_IF_ERROR(row.Finish());
  for (const CatalogLogFile& file : contents.log_files) {
    Statement insert(database);
    LONGWAVE_RETURN_IF_ERROR(insert.Prepare("INSERT INTO log_file VALUES (?, ?)"));
    insert.Bind(uint64_t{file.number}).Bind(file.first_sequence);
    LONGWAVE_RETURN_IF_ERROR(insert.Finish());
  }
  for (const std::string& name : contents.snapshots) {
    Statement insert(database);
    LONGWAVE_RETURN_IF_ERROR(insert.Prepare("INSERT INTO snapshot VALUES (?)"));
    LONGWAVE_RETURN_IF_ERROR(insert.Bind(name).Finish());
  }
  return absl::OkStatus();
}

class SqliteCatalog final : public CatalogBackend {
 public:
  explicit SqliteCatalog(const std::string& folder) : database_(JoinPath(folder, "shard.db")) {}

  absl::StatusOr<std::optional<CatalogContents>> Load() override {
    LONGWAVE_RETURN_IF_ERROR(OpenOnce());
    CatalogContents contents;
    Statement row(database_);
    LONGWAVE_RETURN_IF_ERROR(
        row.Prepare("SELECT run, shard, layout_hash, settings, incarnation FROM catalog"));
    LONGWAVE_ASSIGN_OR_RETURN(const bool saved, row.Step());
    if (!saved) return std::nullopt;
    contents.identity.run = row.Word(0);
    contents.identity.shard = static_cast<uint32_t>(row.Word(1));
    contents.identity.layout_hash = row.Word(2);
    contents.settings = row.Text(3);
    contents.incarnation = row.Word(4);
    Statement files(database_);
    LONGWAVE_RETURN_IF_ERROR(
        files.Prepare("SELECT number, first_sequence FROM log_file ORDER BY number"));
    for (;;) {
      LONGWAVE_ASSIGN_OR_RETURN(const bool more, files.Step());
      if (!more) break;
      contents.log_files.push_back({static_cast<uint32_t>(files.Word(0)), files.Word(1)});
    }
    Statement names(database_);
    LONGWAVE_RETURN_IF_ERROR(names.Prepare("SELECT name FROM snapshot ORDER BY name"));
    for (;;) {
      LONGWAVE_ASSIGN_OR_RETURN(const bool more, names.Step());
      if (!more) break;
      contents.snapshots.push_back(names.Text(0));
    }
    return contents;
  }

  absl::Status Save(const CatalogContents& contents) override {
    LONGWAVE_RETURN_IF_ERROR(OpenOnce());
    absl::Status status = database_.Run(
        "BEGIN IMMEDIATE; DELETE FROM catalog; DELETE FROM log_file; DELETE FROM snapshot;");
    if (status.ok()) status = InsertAll(database_, contents);
    if (status.ok()) status = database_.Run("COMMIT");
    // What went wrong first is what counts; a transaction that SQLite ended itself is gone already.
    if (!status.ok()) database_.Run("ROLLBACK").IgnoreError();
    return status;
  }

 private:
  absl::Status OpenOnce() {
    if (checked_) return absl::OkStatus();
    LONGWAVE_RETURN_IF_ERROR(database_.Open());
    LONGWAVE_ASSIGN_OR_RETURN(const uint64_t schema, ReadPragma(database_, "PRAGMA user_version"));
    LONGWAVE_ASSIGN_OR_RETURN(const uint64_t id, ReadPragma(database_, "PRAGMA application_id"));
    LONGWAVE_ASSIGN_OR_RETURN(const uint64_t tables,
                              ReadPragma(database_, "SELECT count(*) FROM sqlite_schema"));
    if (tables != 0 && id != kApplicationId) {
      return absl::FailedPreconditionError(
          absl::StrCat(database_.path(), ": is a database, but no catalog of ours"));
    }
    if (tables != 0 && schema != kCatalogSchema) {
      return absl::FailedPreconditionError(
          absl::StrCat(database_.path(), ": schema: got ", schema, ", wanted ", kCatalogSchema));
    }
    if (tables == 0) {
      LONGWAVE_RETURN_IF_ERROR(database_.Run(
          absl::StrCat("BEGIN IMMEDIATE; PRAGMA user_version = ", kCatalogSchema,
                       "; PRAGMA application_id = ", kApplicationId, "; ", kTables, " COMMIT;")));
    }
    checked_ = true;
    return absl::OkStatus();
  }

  Database database_;
  bool checked_ = false;
};

}  // namespace

std::unique_ptr<CatalogBackend> MakeSqliteCatalog(std::string folder) {
  return std::make_unique<SqliteCatalog>(folder);
}

}  // namespace longwave
