#include "server/store/catalog_format.h"

#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/wire/byte_stream.h"
#include "common/wire/crc32c.h"

namespace longwave {
namespace {

constexpr uint32_t kCatalogMagic = 0x3143574c;  // "LWC1"

}  // namespace

// magic, schema, length and CRC of the rest; then the fields in the order of CatalogContents.
std::vector<std::byte> EncodeCatalog(const CatalogContents& contents) {
  ByteWriter body;
  body.Put<uint64_t>(contents.identity.run);
  body.Put<uint32_t>(contents.identity.shard);
  body.Put<uint64_t>(contents.identity.layout_hash);
  body.Put<uint64_t>(contents.folder);
  body.PutSizedText(contents.settings);
  body.Put<uint64_t>(contents.incarnation);
  body.Put<uint64_t>(contents.log_files.size());
  for (const CatalogLogFile& file : contents.log_files) {
    body.Put<uint32_t>(file.number);
    body.Put<uint64_t>(file.first_sequence);
  }
  body.Put<uint64_t>(contents.snapshots.size());
  for (const std::string& name : contents.snapshots) body.PutSizedText(name);
  ByteWriter all;
  all.Put<uint32_t>(kCatalogMagic);
  all.Put<uint32_t>(kCatalogSchema);
  all.Put<uint64_t>(body.bytes().size());
  all.Put<uint32_t>(Crc32c(body.bytes()));
  all.PutBytes(body.bytes());
  return all.Take();
}

absl::StatusOr<CatalogContents> DecodeCatalog(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (const auto magic = in.Get<uint32_t>(); magic != kCatalogMagic) {
    return FailedPrecondition(absl::StrFormat("is no catalog of ours: magic: got %08x, wanted %08x",
                                              magic, kCatalogMagic));
  }
  if (const auto schema = in.Get<uint32_t>(); schema != kCatalogSchema) {
    return FailedPrecondition("schema: got ", schema, ", wanted ", kCatalogSchema);
  }
  const auto length = in.Get<uint64_t>();
  const auto crc = in.Get<uint32_t>();
  if (!in.ok() || in.left() != length) {
    return DataLoss("got ", in.left(), " bytes behind its head, wanted ", length);
  }
  if (const uint32_t wanted = Crc32c(bytes.last(length)); crc != wanted) {
    return DataLoss(absl::StrFormat("CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  CatalogContents contents;
  contents.identity.run = in.Get<uint64_t>();
  contents.identity.shard = in.Get<uint32_t>();
  contents.identity.layout_hash = in.Get<uint64_t>();
  contents.folder = in.Get<uint64_t>();
  contents.settings = in.GetSizedText();
  contents.incarnation = in.Get<uint64_t>();
  const auto log_files = in.Get<uint64_t>();
  for (uint64_t i = 0; i < log_files && in.ok(); ++i) {
    const auto number = in.Get<uint32_t>();
    contents.log_files.push_back({number, in.Get<uint64_t>()});
  }
  const auto snapshots = in.Get<uint64_t>();
  for (uint64_t i = 0; i < snapshots && in.ok(); ++i)
    contents.snapshots.push_back(in.GetSizedText());
  if (!in.done()) return DataLoss("its length is not what its fields say");
  return contents;
}

}  // namespace longwave
