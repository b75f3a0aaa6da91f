#include "server/store/log_record.h"

#include <array>

#include "common/base/enum_name.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/wire/crc32c.h"
#include "common/wire/field_codec.h"

namespace longwave {
namespace {

absl::Status CheckContributors(const MergedRecord& record) {
  const std::vector<Contributor>& contributors = record.contributors;
  if (contributors.size() != record.header.contributions ||
      contributors.size() > kLogContributorsMax) {
    return InvalidArgument("got ", contributors.size(), " contributors, the frame says ",
                           record.header.contributions, ", at most ", kLogContributorsMax);
  }
  for (size_t i = 0; i < contributors.size(); ++i) {
    if (i > 0 && contributors[i].worker <= contributors[i - 1].worker) {
      return InvalidArgument("contributors: got worker ", contributors[i].worker, " after ",
                             contributors[i - 1].worker, ", wanted them ascending");
    }
    if (const double factor = contributors[i].factor; !(factor >= 0 && factor <= 1)) {
      return InvalidArgument("contributor ", contributors[i].worker, ": factor: got ", factor,
                             ", wanted 0 to 1");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckText(absl::string_view what, std::string_view text, size_t bytes_max) {
  if (text.size() > bytes_max) {
    return InvalidArgument(what, ": got ", text.size(), " bytes, wanted at most ", bytes_max);
  }
  if (const size_t at = FindInvalidUtf8(text); at != std::string_view::npos) {
    return InvalidArgument(what, ": byte ", at, " is not UTF-8");
  }
  return absl::OkStatus();
}

void ContributorFields(auto& contributor, auto& code) {
  code(contributor.worker, contributor.crc, contributor.weight, contributor.factor);
}

void RestoredFields(auto& record, auto& code) { code(record.segment, record.round, record.worker); }

void PutFrame(const FrameHeader& header, ByteWriter& out) {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  EncodeFrameHeader(header, bytes);
  out.PutBytes(bytes);
}

struct Encoder {
  FieldWriter& out;
  Buffer& payload;

  absl::Status operator()(const PushRecord& record) {
    LONGWAVE_RETURN_IF_ERROR(VerifyPayload(record.header, record.payload.bytes()));
    PutFrame(record.header, out);
    payload = record.payload;
    return absl::OkStatus();
  }

  absl::Status operator()(const MergedRecord& record) {
    LONGWAVE_RETURN_IF_ERROR(VerifyPayload(record.header, record.payload.bytes()));
    LONGWAVE_RETURN_IF_ERROR(CheckContributors(record));
    PutFrame(record.header, out);
    out(record.residual_hash);
    for (const Contributor& contributor : record.contributors) ContributorFields(contributor, out);
    payload = record.payload;
    return absl::OkStatus();
  }

  absl::Status operator()(const MembershipRecord& record) {
    const Membership& membership = record.membership;
    if (membership.members.size() > kLogMembersMax) {
      return InvalidArgument("got ", membership.members.size(), " members, wanted at most ",
                             kLogMembersMax);
    }
    out(membership.epoch, static_cast<uint32_t>(membership.members.size()));
    for (const Member& member : membership.members) {
      LONGWAVE_RETURN_IF_ERROR(CheckText("a member's name", member.name, kLogNameBytesMax));
      out(member.worker, member.first_round, static_cast<uint32_t>(member.name.size()));
      out.PutText(member.name);
    }
    if (out.bytes().size() > kLogBodyBytesMax) {
      return InvalidArgument("got ", out.bytes().size(), " bytes, wanted at most ",
                             kLogBodyBytesMax);
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const NoteRecord& record) {
    LONGWAVE_RETURN_IF_ERROR(CheckText("text", record.text, kLogNoteBytesMax));
    out(record.round);
    out.PutText(record.text);
    return absl::OkStatus();
  }

  absl::Status operator()(const RestoredRecord& record) {
    RestoredFields(record, out);
    return absl::OkStatus();
  }
};

absl::Status WrongLength() { return InvalidArgument("its length is not what its fields say"); }

absl::StatusOr<LogRecord> DecodePush(ByteReader in, const std::shared_ptr<const void>& owner) {
  PushRecord record;
  LONGWAVE_ASSIGN_OR_RETURN(record.header,
                            DecodeFrameHeaderOf<PushFrame>(in.GetBytes(kFrameHeaderBytes)));
  record.payload = Buffer(in.GetBytes(in.left()), owner);
  LONGWAVE_RETURN_IF_ERROR(VerifyPayload(record.header, record.payload.bytes()));
  return record;
}

absl::StatusOr<LogRecord> DecodeMerged(FieldReader in, const std::shared_ptr<const void>& owner) {
  MergedRecord record;
  LONGWAVE_ASSIGN_OR_RETURN(record.header,
                            DecodeFrameHeaderOf<MergedFrame>(in.GetBytes(kFrameHeaderBytes)));
  in(record.residual_hash);
  constexpr uint64_t kContributorBytes = 24;
  if (record.header.contributions > in.left() / kContributorBytes) return WrongLength();
  record.contributors.resize(record.header.contributions);
  for (Contributor& contributor : record.contributors) ContributorFields(contributor, in);
  if (!in.ok()) return WrongLength();
  LONGWAVE_RETURN_IF_ERROR(CheckContributors(record));
  record.payload = Buffer(in.GetBytes(in.left()), owner);
  LONGWAVE_RETURN_IF_ERROR(VerifyPayload(record.header, record.payload.bytes()));
  return record;
}

absl::StatusOr<LogRecord> DecodeMembership(ByteReader in) {
  MembershipRecord record;
  record.membership.epoch = in.Get<uint32_t>();
  const auto count = in.Get<uint32_t>();
  constexpr uint64_t kMemberBytesMin = 12;
  if (count > kLogMembersMax || count > in.left() / kMemberBytesMin) return WrongLength();
  record.membership.members.resize(count);
  for (Member& member : record.membership.members) {
    member.worker = in.Get<uint32_t>();
    member.first_round = in.Get<uint32_t>();
    member.name = in.GetText(in.Get<uint32_t>());
    LONGWAVE_RETURN_IF_ERROR(CheckText("a member's name", member.name, kLogNameBytesMax));
  }
  if (!in.done()) return WrongLength();
  return record;
}

absl::StatusOr<LogRecord> DecodeNote(ByteReader in) {
  NoteRecord record;
  record.round = in.Get<uint32_t>();
  if (!in.ok()) return WrongLength();
  record.text = in.GetText(in.left());
  LONGWAVE_RETURN_IF_ERROR(CheckText("text", record.text, kLogNoteBytesMax));
  return record;
}

absl::StatusOr<LogRecord> DecodeRestored(FieldReader in) {
  RestoredRecord record;
  RestoredFields(record, in);
  if (!in.done()) return WrongLength();
  return record;
}

}  // namespace

std::string_view Name(LogKind kind) {
  return EnumName(kind, {"push", "merged", "membership", "note", "decisions", "restored"},
                  LogKind::kPush);
}

LogKind KindOf(const LogRecord& record) {
  constexpr std::array kKinds = {LogKind::kPush, LogKind::kMerged, LogKind::kMembership,
                                 LogKind::kNote, LogKind::kRestored};
  static_assert(kKinds.size() == std::variant_size_v<LogRecord>);
  return kKinds[record.index()];
}

absl::StatusOr<LogBody> EncodeLogBody(const LogRecord& record) {
  FieldWriter front;
  LogBody body;
  if (absl::Status status = std::visit(Encoder{front, body.payload}, record); !status.ok()) {
    return InvalidArgument(Name(KindOf(record)), " record: ", status.message());
  }
  body.front = front.Take();
  body.crc = Crc32c(body.front);
  // A payload's own CRC has just been verified: its bytes need not be read again.
  if (const auto* push = std::get_if<PushRecord>(&record)) {
    body.crc = Crc32cConcat(body.crc, push->header.payload_crc, push->header.payload_bytes);
  } else if (const auto* merged = std::get_if<MergedRecord>(&record)) {
    body.crc = Crc32cConcat(body.crc, merged->header.payload_crc, merged->header.payload_bytes);
  }
  body.bytes = static_cast<uint32_t>(body.front.size() + body.payload.size());
  return body;
}

absl::StatusOr<LogRecord> DecodeLogBody(LogKind kind, std::span<const std::byte> body,
                                        const std::shared_ptr<const void>& owner) {
  switch (kind) {
    case LogKind::kPush:
      return DecodePush(ByteReader(body), owner);
    case LogKind::kMerged:
      return DecodeMerged(FieldReader(body), owner);
    case LogKind::kMembership:
      return DecodeMembership(ByteReader(body));
    case LogKind::kNote:
      return DecodeNote(ByteReader(body));
    case LogKind::kRestored:
      return DecodeRestored(FieldReader(body));
    case LogKind::kDecisions:  // not a shard's
      break;
  }
  return InvalidArgument("record kind: got ", static_cast<int>(kind), ", wanted 1 to 4 or 6");
}

}  // namespace longwave
