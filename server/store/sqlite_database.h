#ifndef LONGWAVE_SERVER_STORE_SQLITE_DATABASE_H_
#define LONGWAVE_SERVER_STORE_SQLITE_DATABASE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace longwave {

// Private to this folder: SQLite, with statuses that name the file.

// What a database of ours is.
struct SqliteFormat {
  const char* what = "";  // "catalog", for refusals
  uint32_t application_id = 0;
  uint32_t schema = 0;       // its user_version
  const char* pragmas = "";  // of each connection: how it journals and syncs
  const char* tables = "";   // the statements that make them
};

// One connection.
class SqliteDatabase {
 public:
  explicit SqliteDatabase(std::string path) : path_(std::move(path)) {}
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Makes the database if it is not there. After an error it may be called again; after success it
  // does nothing. FailedPrecondition: another kind of file, or another schema.
  absl::Status Open(const SqliteFormat& format);

  absl::Status Run(const std::string& sql);
  // Of the last call that failed. ResourceExhausted: the disk is full. Unavailable: locked by
  // another. DataLoss: damaged.
  absl::Status Error() const;
  // The first column of a query's first row; 0 if there is none.
  absl::StatusOr<uint64_t> ReadWord(const char* sql);

  const std::string& path() const { return path_; }
  sqlite3* get() const { return db_; }

 private:
  absl::Status Connect(const SqliteFormat& format);

  std::string path_;
  sqlite3* db_ = nullptr;
  bool checked_ = false;
};

// 64-bit words are stored as SQLite's signed integers with the same bits.
class SqliteStatement {
 public:
  explicit SqliteStatement(SqliteDatabase& database) : database_(database) {}
  ~SqliteStatement();
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  absl::Status Prepare(const char* sql);
  // Parameters in order; texts and bytes must outlive the statement. That a binding fails means
  // that memory is out, and then the step fails too: NOT NULL.
  SqliteStatement& Bind(uint64_t word);
  SqliteStatement& Bind(const std::string& text);
  SqliteStatement& Bind(std::span<const std::byte> bytes);
  // Whether there is a (further) row.
  absl::StatusOr<bool> Step();
  absl::Status Finish() { return Step().status(); }

  uint64_t Word(int column) const;
  std::string Text(int column) const;
  std::span<const std::byte> Bytes(int column) const;  // until the next step

 private:
  SqliteDatabase& database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_SQLITE_DATABASE_H_
