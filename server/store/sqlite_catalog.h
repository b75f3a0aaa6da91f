#ifndef LONGWAVE_SERVER_STORE_SQLITE_CATALOG_H_
#define LONGWAVE_SERVER_STORE_SQLITE_CATALOG_H_

#include <memory>
#include <string>

#include "server/store/catalog.h"

namespace longwave {

// The catalog in an SQLite database, folder/shard.db, for the machine's own disk. Tables: catalog
// (one row: run, shard, layout_hash, settings, incarnation), log_file (number, first_sequence),
// snapshot (name). 64-bit words are stored as SQLite's signed integers with the same bits.
// user_version is the schema, application_id is "LWSD".
std::unique_ptr<CatalogBackend> MakeSqliteCatalog(std::string folder);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_SQLITE_CATALOG_H_
