#include "server/store/coordinator_format.h"

#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/field_codec.h"

namespace longwave {
namespace {

constexpr uint32_t kRecordMagic = 0x6443574c;  // "LWCd" read as bytes

}  // namespace

std::vector<std::byte> Encode(const CoordinatorChanges& changes) {
  constexpr size_t kUsualBytes = 4096;
  FieldWriter out;
  out.Reserve(kUsualBytes);
  if (changes.intervals.has_value()) {
    out(kRecordMagic, kCoordinatorFormatWithIntervals, changes, *changes.intervals);
  } else {
    out(kRecordMagic, kCoordinatorFormat, changes);
  }
  return out.Take();
}

absl::StatusOr<CoordinatorChanges> DecodeCoordinatorChanges(std::span<const std::byte> bytes) {
  FieldReader in(bytes);
  uint32_t magic = 0;
  uint32_t format = 0;
  in(magic, format);
  if (magic != kRecordMagic) {
    return FailedPrecondition(absl::StrFormat("magic: got %08x, wanted %08x", magic, kRecordMagic));
  }
  if (format != kCoordinatorFormat && format != kCoordinatorFormatWithIntervals) {
    return FailedPrecondition("format: got ", format, ", wanted ", kCoordinatorFormat, " or ",
                              kCoordinatorFormatWithIntervals);
  }
  CoordinatorChanges changes;
  in(changes);
  if (format == kCoordinatorFormatWithIntervals) in(changes.intervals.emplace());
  if (!in.good()) return DataLoss("a value that is none of its kind");
  if (!in.done()) return DataLoss("its length is not what its fields say");
  if (changes.manifest) LONGWAVE_RETURN_IF_ERROR(Validate(*changes.manifest));
  return changes;
}

}  // namespace longwave
