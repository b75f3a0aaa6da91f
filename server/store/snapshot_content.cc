#include "server/store/snapshot_content.h"

#include <array>
#include <memory>

#include "common/base/errors.h"
#include "common/wire/byte_stream.h"

namespace longwave {
namespace {

// OK, or what is wrong with the closed update.
absl::Status CheckClosed(const SegmentSnapshot& segment) {
  const ClosedSegment& closed = *segment.closed;
  if (uint64_t{closed.header.round} + 1 != segment.open_round) {
    return InvalidArgument("the closed update is of round ", closed.header.round,
                           ", wanted the round before ", segment.open_round);
  }
  if (closed.contributors.size() != closed.header.contributions) {
    return InvalidArgument("got ", closed.contributors.size(), " contributors, the frame says ",
                           closed.header.contributions);
  }
  for (size_t i = 1; i < closed.contributors.size(); ++i) {
    if (closed.contributors[i].worker <= closed.contributors[i - 1].worker) {
      return InvalidArgument("contributors that do not ascend");
    }
  }
  return VerifyPayload(closed.header, closed.payload.bytes());
}

// The first word of a segment in a state content: kFormat, with kHasClosed if the closed update
// follows.
constexpr uint32_t kFormat = 4;  // smaller values: folders from before 2026-11-23
constexpr uint32_t kHasClosed = 1;

absl::Status CheckNewest(const SegmentSnapshot& segment) {
  for (const auto& [worker, round] : segment.newest) {
    if (round < segment.open_round) continue;
    return InvalidArgument("the last push of worker ", worker, " is of round ", round,
                           ", wanted one before ", segment.open_round);
  }
  return absl::OkStatus();
}

absl::Status SegmentLoss(size_t segment, const auto&... what) {
  return DataLoss("snapshot: segment ", segment, " of it: ", what...);
}

absl::Status CheckEnd(const ByteReader& in) {
  if (in.done()) return absl::OkStatus();
  return DataLoss("snapshot: content: its length is not what its fields say");
}

std::shared_ptr<const void> OwnerOf(const Buffer& content) {
  return std::make_shared<const Buffer>(content);
}

}  // namespace

absl::StatusOr<Buffer> EncodeStateContent(std::span<const SegmentSnapshot> segments) {
  ByteWriter out;
  for (const SegmentSnapshot& segment : segments) {
    out.Put<uint32_t>(segment.open_round);
    out.Put<uint32_t>(kFormat | (segment.closed.has_value() ? kHasClosed : 0));
    out.Put<uint64_t>(segment.residual.size());
    out.PutBytes(std::as_bytes(std::span(segment.residual)));
    out.Align();
    if (absl::Status status = CheckNewest(segment); !status.ok()) {
      return InvalidArgument("snapshot: ", status.message());
    }
    out.Put<uint64_t>(segment.newest.size());
    for (const auto& [worker, round] : segment.newest) {
      out.Put<uint32_t>(worker);
      out.Put<uint32_t>(round);
    }
    if (!segment.closed.has_value()) continue;
    if (absl::Status status = CheckClosed(segment); !status.ok()) {
      return InvalidArgument("snapshot: ", status.message());
    }
    std::array<std::byte, kFrameHeaderBytes> header;
    EncodeFrameHeader(segment.closed->header, header);
    out.PutBytes(header);
    for (const auto& [worker, crc] : segment.closed->contributors) {
      out.Put<uint32_t>(worker);
      out.Put<uint32_t>(crc);
    }
    out.PutBytes(segment.closed->payload.bytes());
    out.Align();
  }
  return Buffer(out.Take());
}

absl::StatusOr<std::vector<SegmentSnapshot>> DecodeStateContent(const Buffer& content,
                                                                uint32_t segment_count) {
  ByteReader in(content.bytes());
  const std::shared_ptr<const void> owner = OwnerOf(content);
  std::vector<SegmentSnapshot> segments;
  for (uint32_t i = 0; i < segment_count; ++i) {
    SegmentSnapshot& segment = segments.emplace_back();
    segment.open_round = in.Get<uint32_t>();
    const auto has = in.Get<uint32_t>();
    if ((has & ~kHasClosed) != kFormat) {
      return SegmentLoss(i, "format: got ", has, ", wanted 4 or 5: is it of another release?");
    }
    const auto count = in.Get<uint64_t>();
    if (count > in.left() / sizeof(float)) return SegmentLoss(i, "longer than the content");
    const auto floats = in.GetBytes(count * sizeof(float));
    segment.residual.resize(count);
    std::ranges::copy(floats, std::as_writable_bytes(std::span(segment.residual)).begin());
    in.Align();
    if (!in.ok()) break;
    const auto newest = in.Get<uint64_t>();
    if (newest > in.left() / (2 * sizeof(uint32_t)))
      return SegmentLoss(i, "longer than the content");
    for (uint64_t w = 0; w < newest; ++w) {
      const auto worker = in.Get<uint32_t>();
      if (!segment.newest.empty() && worker <= segment.newest.rbegin()->first)
        return SegmentLoss(i, "workers that do not ascend");
      segment.newest[worker] = in.Get<uint32_t>();
    }
    if (absl::Status status = CheckNewest(segment); !status.ok())
      return SegmentLoss(i, status.message());
    if ((has & kHasClosed) == 0) continue;
    const auto header = DecodeFrameHeaderOf<MergedFrame>(in.GetBytes(kFrameHeaderBytes));
    if (!header.ok()) return SegmentLoss(i, header.status().message());
    segment.closed.emplace();
    segment.closed->header = *header;
    if (header->contributions > in.left() / (2 * sizeof(uint32_t))) {
      return SegmentLoss(i, "longer than the content");
    }
    segment.closed->contributors.resize(header->contributions);
    for (auto& [worker, crc] : segment.closed->contributors) {
      worker = in.Get<uint32_t>();
      crc = in.Get<uint32_t>();
    }
    segment.closed->payload = Buffer(in.GetBytes(header->payload_bytes), owner);
    in.Align();
    if (!in.ok()) break;
    if (absl::Status status = CheckClosed(segment); !status.ok()) {
      return SegmentLoss(i, status.message());
    }
  }
  if (absl::Status status = CheckEnd(in); !status.ok()) return status;
  return segments;
}

Buffer EncodeModelContent(std::span<const std::span<const float>> segments) {
  ByteWriter out;
  uint64_t bytes = 0;
  for (const auto& segment : segments) bytes += sizeof(uint64_t) + AlignedUp(segment.size_bytes());
  out.Reserve(bytes);
  for (const auto& segment : segments) {
    out.Put<uint64_t>(segment.size());
    out.PutBytes(std::as_bytes(segment));
    out.Align();
  }
  return Buffer(out.Take());
}

absl::StatusOr<std::vector<std::span<const float>>> DecodeModelContent(const Buffer& content,
                                                                       uint32_t segment_count) {
  ByteReader in(content.bytes());
  std::vector<std::span<const float>> segments;
  for (uint32_t i = 0; i < segment_count; ++i) {
    const auto count = in.Get<uint64_t>();
    if (count > in.left() / sizeof(float)) return SegmentLoss(i, "longer than the content");
    const auto floats = in.GetBytes(count * sizeof(float));
    segments.emplace_back(reinterpret_cast<const float*>(floats.data()), count);
    in.Align();
    if (!in.ok()) break;
  }
  if (absl::Status status = CheckEnd(in); !status.ok()) return status;
  return segments;
}

}  // namespace longwave
