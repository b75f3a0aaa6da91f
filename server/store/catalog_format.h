#ifndef LONGWAVE_SERVER_STORE_CATALOG_FORMAT_H_
#define LONGWAVE_SERVER_STORE_CATALOG_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/catalog.h"

namespace longwave {

// The bytes of a catalog's file (proto/LOG.md). Another schema is an error.
inline constexpr uint32_t kCatalogSchema = 3;

std::vector<std::byte> EncodeCatalog(const CatalogContents& contents);
// FailedPrecondition: another schema, or a foreign file. DataLoss: damaged.
absl::StatusOr<CatalogContents> DecodeCatalog(std::span<const std::byte> bytes);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_CATALOG_FORMAT_H_
