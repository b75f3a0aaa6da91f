#include "server/store/coordinator_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/store/coordinator_format.h"
#include "server/store/file_system.h"
#include "server/store/posix_file_system.h"
#include "server/store/sqlite_database.h"

namespace longwave {
namespace {

constexpr SqliteFormat kFormat = {
    .what = "coordinator's record",
    .application_id = 0x4c574344,  // "LWCD"
    .schema = 1,
    // A commit is one append to the write-ahead log and, with FULL, one sync of it.
    .pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;",
    // hashes: NULL once they are too old to be needed.
    .tables =
        "CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), bytes BLOB NOT NULL);"
        "CREATE TABLE manifest (one INTEGER PRIMARY KEY CHECK (one = 1),"
        " bytes BLOB NOT NULL);"
        "CREATE TABLE round (round INTEGER PRIMARY KEY, bytes BLOB NOT NULL, hashes BLOB);"
        "CREATE TABLE report (round INTEGER, worker INTEGER, bytes BLOB NOT NULL,"
        " PRIMARY KEY (round, worker)) WITHOUT ROWID;"};

class SqliteCoordinatorStore final : public CoordinatorStore {
 public:
  explicit SqliteCoordinatorStore(const std::string& folder)
      : database_(JoinPath(folder, "coordinator.db")) {}

  absl::Status Open(const std::string& folder) {
    LONGWAVE_RETURN_IF_ERROR(files_->CreateFolder(folder));
    LONGWAVE_ASSIGN_OR_RETURN(lock_, files_->Lock(JoinPath(folder, "lock")));
    LONGWAVE_RETURN_IF_ERROR(database_.Open(kFormat));
    return files_->SyncFolder(folder);
  }

  absl::StatusOr<std::optional<CoordinatorRecord>> Load() override {
    CoordinatorRecord record;
    bool is_there = false;
    LONGWAVE_RETURN_IF_ERROR(ForEach("SELECT bytes FROM state", [&](SqliteStatement& row) {
      is_there = true;
      return Into(DecodeCoordinatorState(row.Bytes(0)), &record.state);
    }));
    if (!is_there) return std::nullopt;
    LONGWAVE_RETURN_IF_ERROR(ForEach("SELECT bytes FROM manifest", [&](SqliteStatement& row) {
      return Into(DecodeManifest(row.Bytes(0)), &record.manifest.emplace());
    }));
    LONGWAVE_RETURN_IF_ERROR(
        ForEach("SELECT bytes, hashes IS NOT NULL, hashes FROM round ORDER BY round",
                [&](SqliteStatement& row) {
                  FinishedRound& round = record.rounds.emplace_back();
                  LONGWAVE_RETURN_IF_ERROR(Into(DecodeRoundRecord(row.Bytes(0)), &round.record));
                  return row.Word(1) == 0 ? absl::OkStatus() : DecodeHashes(row.Bytes(2), &round);
                }));
    LONGWAVE_RETURN_IF_ERROR(
        ForEach("SELECT bytes FROM report ORDER BY round, worker", [&](SqliteStatement& row) {
          return Into(DecodeOpenReport(row.Bytes(0)), &record.reports.emplace_back());
        }));
    return record;
  }

  absl::Status Write(const CoordinatorChanges& changes) override {
    LONGWAVE_RETURN_IF_ERROR(database_.Run("BEGIN IMMEDIATE"));
    absl::Status status = WriteAll(changes);
    if (status.ok()) status = database_.Run("COMMIT");
    // What went wrong first is what counts; a transaction that SQLite ended itself is gone already.
    if (!status.ok()) database_.Run("ROLLBACK").IgnoreError();
    return status;
  }

 private:
  // Damage is said with the file's name.
  template <typename Take>
  absl::Status ForEach(const char* sql, const Take& take) {
    SqliteStatement rows(database_);
    LONGWAVE_RETURN_IF_ERROR(rows.Prepare(sql));
    for (;;) {
      LONGWAVE_ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) return absl::OkStatus();
      if (const absl::Status status = take(rows); !status.ok()) {
        return AtPath(database_.path(), status);
      }
    }
  }

  template <typename T>
  static absl::Status Into(absl::StatusOr<T> value, T* to) {
    if (value.ok()) *to = *std::move(value);
    return value.status();
  }

  absl::Status Put(const char* sql, std::initializer_list<uint64_t> keys,
                   const std::vector<std::byte>& bytes) {
    SqliteStatement put(database_);
    LONGWAVE_RETURN_IF_ERROR(put.Prepare(sql));
    for (const uint64_t key : keys) put.Bind(key);
    return put.Bind(std::span<const std::byte>(bytes)).Finish();
  }

  // Every row is named by what it is of, so that changes written twice are there once.
  absl::Status WriteAll(const CoordinatorChanges& changes) {
    LONGWAVE_RETURN_IF_ERROR(Put("REPLACE INTO state VALUES (1, ?)", {}, Encode(changes.state)));
    if (changes.manifest_changed) {
      LONGWAVE_RETURN_IF_ERROR(database_.Run("DELETE FROM manifest"));
      if (changes.manifest) {
        LONGWAVE_RETURN_IF_ERROR(
            Put("INSERT INTO manifest VALUES (1, ?)", {}, Encode(*changes.manifest)));
      }
    }
    for (const FinishedRound& round : changes.rounds) {
      const std::vector<std::byte> bytes = Encode(round.record);
      const std::vector<std::byte> hashes = EncodeHashes(round);
      SqliteStatement put(database_);
      LONGWAVE_RETURN_IF_ERROR(put.Prepare("REPLACE INTO round VALUES (?, ?, ?)"));
      put.Bind(uint64_t{round.record.round}).Bind(std::span<const std::byte>(bytes));
      LONGWAVE_RETURN_IF_ERROR(put.Bind(std::span<const std::byte>(hashes)).Finish());
    }
    if (!changes.rounds.empty()) LONGWAVE_RETURN_IF_ERROR(ForgetHashes());
    LONGWAVE_RETURN_IF_ERROR(
        database_.Run(absl::StrCat("DELETE FROM report WHERE round < ", changes.state.next_round)));
    for (const OpenReport& open : changes.reports) {
      LONGWAVE_RETURN_IF_ERROR(Put("REPLACE INTO report VALUES (?, ?, ?)",
                                   {open.report.round, open.member.worker}, Encode(open)));
    }
    return absl::OkStatus();
  }

  absl::Status ForgetHashes() {
    return database_.Run(
        absl::StrCat("UPDATE round SET hashes = NULL WHERE hashes IS NOT NULL AND round <= "
                     "(SELECT round FROM round ORDER BY round DESC LIMIT 1 OFFSET ",
                     kRoundsWithHashes, ")"));
  }

  const std::unique_ptr<FileSystem> files_ = MakePosixFileSystem();
  std::unique_ptr<FileLock> lock_;
  SqliteDatabase database_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorStore>> CoordinatorStore::Open(
    const std::string& folder) {
  auto store = std::make_unique<SqliteCoordinatorStore>(folder);
  LONGWAVE_RETURN_IF_ERROR(store->Open(folder));
  return store;
}

}  // namespace longwave
