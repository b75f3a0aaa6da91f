#include "server/store/sqlite_database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longwave {

SqliteDatabase::~SqliteDatabase() { sqlite3_close(db_); }

absl::Status SqliteDatabase::Connect(const SqliteFormat& format) {
  sqlite3_close(std::exchange(db_, nullptr));  // of an attempt that failed
  // SQLite would make it for everybody to read; its other files get the modes of this one.
  if (const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); fd >= 0) close(fd);
  if (sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) !=
      SQLITE_OK) {
    const absl::Status status = Error();
    sqlite3_close(std::exchange(db_, nullptr));
    return status;
  }
  return Run(format.pragmas);
}

absl::Status SqliteDatabase::Open(const SqliteFormat& format) {
  if (checked_) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(Connect(format));
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t schema, ReadWord("PRAGMA user_version"));
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t id, ReadWord("PRAGMA application_id"));
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t tables, ReadWord("SELECT count(*) FROM sqlite_schema"));
  if (tables != 0 && id != format.application_id) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": is a database, but no ", format.what, " of ours"));
  }
  if (tables != 0 && schema != format.schema) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": schema: got ", schema, ", wanted ", format.schema));
  }
  if (tables == 0) {
    LONGWAVE_RETURN_IF_ERROR(Run(absl::StrCat(
        "BEGIN IMMEDIATE; PRAGMA user_version = ", format.schema,
        "; PRAGMA application_id = ", format.application_id, "; ", format.tables, " COMMIT;")));
  }
  checked_ = true;
  return absl::OkStatus();
}

absl::Status SqliteDatabase::Run(const std::string& sql) {
  if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return Error();
  return absl::OkStatus();
}

absl::Status SqliteDatabase::Error() const {
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

absl::StatusOr<uint64_t> SqliteDatabase::ReadWord(const char* sql) {
  SqliteStatement statement(*this);
  LONGWAVE_RETURN_IF_ERROR(statement.Prepare(sql));
  LONGWAVE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Word(0) : 0;
}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

absl::Status SqliteStatement::Prepare(const char* sql) {
  if (sqlite3_prepare_v2(database_.get(), sql, -1, &statement_, nullptr) != SQLITE_OK) {
    return database_.Error();
  }
  return absl::OkStatus();
}

SqliteStatement& SqliteStatement::Bind(uint64_t word) {
  sqlite3_bind_int64(statement_, ++bound_, static_cast<sqlite3_int64>(word));
  return *this;
}

SqliteStatement& SqliteStatement::Bind(const std::string& text) {
  sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

SqliteStatement& SqliteStatement::Bind(std::span<const std::byte> bytes) {
  // No bytes are a blob of none, not NULL.
  sqlite3_bind_blob64(statement_, ++bound_,
                      bytes.empty() ? "" : static_cast<const void*>(bytes.data()), bytes.size(),
                      SQLITE_STATIC);
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return database_.Error();
}

uint64_t SqliteStatement::Word(int column) const {
  return static_cast<uint64_t>(sqlite3_column_int64(statement_, column));
}

std::string SqliteStatement::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return "";
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

std::span<const std::byte> SqliteStatement::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  if (bytes == nullptr) return {};
  return {static_cast<const std::byte*>(bytes),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

}  // namespace longwave
