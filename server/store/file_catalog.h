#ifndef LONGWAVE_SERVER_STORE_FILE_CATALOG_H_
#define LONGWAVE_SERVER_STORE_FILE_CATALOG_H_

#include <memory>
#include <string>

#include "server/store/catalog.h"
#include "server/store/file_system.h"

namespace longwave {

// The catalog as one file, folder/shard.catalog, that each save replaces (proto/LOG.md).
std::unique_ptr<CatalogBackend> MakeFileCatalog(FileSystem* files, std::string folder);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_FILE_CATALOG_H_
