#include "worker/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/byte_stream.h"
#include "common/wire/frame.h"
#include "server/store/snapshot_format.h"

namespace longwave {
namespace {

// Versions 1 and 2 stored the optimizer's arrays outside of blobs.
constexpr uint32_t kMagicBeforeBlobs = 0x3143574c;  // "LWC1"

constexpr std::array<std::byte, kFileAlignment> kPadding = {};

struct Header {
  uint64_t run, layout_hash;
  uint32_t worker, round, fragment, push_count;
  uint64_t step, tokens;
  double seconds_computing, seconds_syncing;
  ByteCounts bytes;
  uint64_t coefficient_count;
  uint32_t blob_count, name_bytes;
  NodeRank node;
  uint64_t write;
  uint64_t body_bytes, body_hash;
};

std::vector<std::byte> Encode(const Header& header) {
  ByteWriter out;
  out.Put(kCheckpointMagic);
  out.Put(kCheckpointVersion);
  const bool is_part = !header.node.is_alone();
  out.Put(static_cast<uint8_t>(is_part ? header.node.rank : 0));
  out.Put(static_cast<uint8_t>(is_part ? header.node.ranks : 0));
  out.Put(header.run);
  out.Put(header.layout_hash);
  for (uint32_t field : {header.worker, header.round, header.fragment, header.push_count}) {
    out.Put(field);
  }
  out.Put(header.step);
  out.Put(header.tokens);
  out.Put(header.seconds_computing);
  out.Put(header.seconds_syncing);
  const ByteCounts& bytes = header.bytes;
  for (uint64_t count : {bytes.pushed, bytes.pulled, bytes.payload_pushed, bytes.payload_pulled}) {
    out.Put(count);
  }
  out.Put(header.coefficient_count);
  out.Put(header.blob_count);
  out.Put(header.name_bytes);
  out.Put(header.write);
  out.Put(header.body_bytes);
  out.Put(header.body_hash);
  out.Put(HashContent(out.bytes()));
  LONGWAVE_CHECK(out.bytes().size() == kCheckpointHeaderBytes);
  return out.Take();
}

absl::Status Damaged(std::string_view what) { return DataLoss("checkpoint: ", what); }

absl::Status OfVersion(uint16_t version) {
  return FailedPrecondition(
      "checkpoint: got version ", version, ", wanted ", kCheckpointVersion,
      ": another release of Longwave wrote it; finish the run with that release, or "
      "move the file away: the worker then comes back without its optimizer's state "
      "and without the residual that it had not sent yet");
}

bool IsCount(double value) { return std::isfinite(value) && value >= 0; }

absl::StatusOr<Header> DecodeHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kCheckpointHeaderBytes) {
    return Damaged(
        absl::StrCat("got ", bytes.size(), " bytes, wanted at least ", kCheckpointHeaderBytes));
  }
  bytes = bytes.first(kCheckpointHeaderBytes);
  ByteReader in(bytes);
  const auto magic = in.Get<uint32_t>();
  const auto version = in.Get<uint16_t>();
  if (magic != kCheckpointMagic && magic != kMagicBeforeBlobs) {
    return InvalidArgument("checkpoint: the file begins as none does");
  }
  if (magic == kMagicBeforeBlobs || version != kCheckpointVersion) return OfVersion(version);
  const size_t hashed = kCheckpointHeaderBytes - sizeof(uint64_t);
  if (LoadLe<uint64_t>(bytes.data() + hashed) != HashContent(bytes.first(hashed))) {
    return Damaged("the header's hash is not that of its bytes");
  }
  Header header;
  const auto rank = in.Get<uint8_t>();
  const auto ranks = in.Get<uint8_t>();
  const auto node = NodeRank::Unpack(uint32_t{ranks} << 16 | rank);
  if (!node.ok()) return Damaged(absl::StrCat("got rank ", rank, " of ", ranks));
  header.node = *node;
  header.run = in.Get<uint64_t>();
  header.layout_hash = in.Get<uint64_t>();
  for (uint32_t* field : {&header.worker, &header.round, &header.fragment, &header.push_count}) {
    *field = in.Get<uint32_t>();
  }
  header.step = in.Get<uint64_t>();
  header.tokens = in.Get<uint64_t>();
  header.seconds_computing = in.Get<double>();
  header.seconds_syncing = in.Get<double>();
  ByteCounts& counts = header.bytes;
  for (uint64_t* count :
       {&counts.pushed, &counts.pulled, &counts.payload_pushed, &counts.payload_pulled}) {
    *count = in.Get<uint64_t>();
  }
  header.coefficient_count = in.Get<uint64_t>();
  header.blob_count = in.Get<uint32_t>();
  header.name_bytes = in.Get<uint32_t>();
  header.write = in.Get<uint64_t>();
  header.body_bytes = in.Get<uint64_t>();
  header.body_hash = in.Get<uint64_t>();
  if (header.node.is_alone() && header.write != 0)
    return Damaged("the whole of one device has the write of a node's parts");
  if (!IsCount(header.seconds_computing) || !IsCount(header.seconds_syncing)) {
    return Damaged("a number of the header is not finite or below zero");
  }
  if (header.body_bytes > kCheckpointFileBytesMax - kCheckpointHeaderBytes) {
    return Damaged(absl::StrCat("got ", header.body_bytes,
                                " bytes after the header, wanted at most ",
                                kCheckpointFileBytesMax - kCheckpointHeaderBytes));
  }
  return header;
}

absl::Status CheckFits(const Header& header, const CheckpointShape& shape) {
  if (header.layout_hash != shape.layout_hash) {
    return NotFound("checkpoint: of a model that is cut in another way than this one");
  }
  // A part's number is checked where the parts are put together.
  const bool has_all = header.coefficient_count == shape.coefficient_count;
  if (header.node.is_alone() ? !has_all : header.coefficient_count > shape.coefficient_count) {
    return Damaged(absl::StrCat("got ", header.coefficient_count, " coefficients, wanted ",
                                shape.coefficient_count));
  }
  if (header.blob_count > kCheckpointBlobsMax) {
    return Damaged(
        absl::StrCat("got ", header.blob_count, " blobs, wanted at most ", kCheckpointBlobsMax));
  }
  if (header.push_count > shape.segment_count) {
    return Damaged(
        absl::StrCat("got ", header.push_count, " pushes, wanted at most ", shape.segment_count));
  }
  if (header.name_bytes > kCheckpointNameBytesMax) {
    return Damaged(absl::StrCat("got a name of ", header.name_bytes, " bytes, wanted at most ",
                                kCheckpointNameBytesMax));
  }
  return absl::OkStatus();
}

std::vector<float> GetFloats(ByteReader& in, uint64_t count) {
  const std::span<const std::byte> bytes = in.GetBytes(count * sizeof(float));
  in.Align();
  std::vector<float> values(in.ok() ? count : 0);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Adds pieces, each aligned to kFileAlignment.
class Pieces {
 public:
  explicit Pieces(EncodedCheckpoint* out) : out_(out) {}
  void Add(std::span<const std::byte> bytes) {
    AddUnaligned(bytes);
    AddUnaligned(std::span(kPadding).first(AlignedUp(out_->bytes) - out_->bytes));
  }

 private:
  void AddUnaligned(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    out_->pieces.push_back(bytes);
    out_->bytes += bytes.size();
  }
  EncodedCheckpoint* const out_;
};

absl::Status CheckBlobs(std::span<const NamedBlob> blobs) {
  if (blobs.size() > kCheckpointBlobsMax) {
    return InvalidArgument("checkpoint: got ", blobs.size(), " blobs, wanted at most ",
                           kCheckpointBlobsMax);
  }
  for (size_t i = 0; i < blobs.size(); ++i) {
    const std::string& name = blobs[i].name;
    if (name.empty() || name.size() > kCheckpointBlobNameBytesMax) {
      return InvalidArgument("checkpoint: blob ", i, ": got a name of ", name.size(),
                             " bytes, wanted 1 to ", kCheckpointBlobNameBytesMax);
    }
    const auto same = std::ranges::find(blobs.first(i), name, &NamedBlob::name);
    if (same != blobs.first(i).end()) {
      return InvalidArgument("checkpoint: blob ", i, ": got ", name,
                             " a second time, wanted a name of its own");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool NamedBlob::operator==(const NamedBlob& other) const {
  return name == other.name && std::ranges::equal(bytes.bytes(), other.bytes.bytes());
}

bool UnsettledPush::operator==(const UnsettledPush& other) const {
  return segment == other.segment && norm == other.norm && weight == other.weight &&
         std::ranges::equal(payload.bytes(), other.payload.bytes());
}

absl::StatusOr<EncodedCheckpoint> EncodeCheckpoint(const Checkpoint& checkpoint) {
  if (checkpoint.name.size() > kCheckpointNameBytesMax) {
    return InvalidArgument("checkpoint: got a name of ", checkpoint.name.size(),
                           " bytes, wanted at most ", kCheckpointNameBytesMax);
  }
  LONGWAVE_RETURN_IF_ERROR(CheckBlobs(checkpoint.blobs));
  ByteWriter table;
  table.PutText(checkpoint.name);
  table.Align();
  for (const uint32_t accounted : checkpoint.accounted) table.Put(accounted);
  table.Align();
  const UnsettledPush* before = nullptr;
  for (const UnsettledPush& push : checkpoint.pushes) {
    if (before != nullptr && before->segment >= push.segment) {
      return InvalidArgument("checkpoint: got a push of segment ", push.segment, " after one of ",
                             before->segment);
    }
    if (push.segment >= checkpoint.accounted.size()) {
      return InvalidArgument("checkpoint: got a push of segment ", push.segment, " of ",
                             checkpoint.accounted.size());
    }
    before = &push;
    table.Put(push.segment);
    table.Put(push.norm);
    table.Put(push.weight);
    table.Put(uint64_t{push.payload.size()});
  }
  for (const NamedBlob& blob : checkpoint.blobs) {
    table.Put(uint64_t{blob.bytes.size()});
    table.Put(static_cast<uint32_t>(blob.name.size()));
    table.PutText(blob.name);
    table.Align();
  }

  EncodedCheckpoint encoded;
  encoded.front.resize(kCheckpointHeaderBytes);
  encoded.front.insert(encoded.front.end(), table.bytes().begin(), table.bytes().end());
  Pieces pieces(&encoded);
  pieces.Add(encoded.front);
  pieces.Add(std::as_bytes(std::span(checkpoint.momentum)));
  for (const NamedBlob& blob : checkpoint.blobs) pieces.Add(blob.bytes.bytes());
  for (const UnsettledPush& push : checkpoint.pushes) pieces.Add(push.payload.bytes());
  if (encoded.bytes > kCheckpointFileBytesMax) {
    return ResourceExhausted("checkpoint: got ", encoded.bytes, " bytes, wanted at most ",
                             kCheckpointFileBytesMax);
  }

  ContentHash hash;
  hash.Add(std::span(encoded.front).subspan(kCheckpointHeaderBytes));
  for (size_t i = 1; i < encoded.pieces.size(); ++i) hash.Add(encoded.pieces[i]);
  const Header header = {
      .run = checkpoint.run,
      .layout_hash = checkpoint.layout_hash,
      .worker = checkpoint.worker,
      .round = checkpoint.round,
      .fragment = checkpoint.fragment,
      .push_count = static_cast<uint32_t>(checkpoint.pushes.size()),
      .step = checkpoint.step,
      .tokens = checkpoint.tokens,
      .seconds_computing = checkpoint.seconds_computing,
      .seconds_syncing = checkpoint.seconds_syncing,
      .bytes = checkpoint.bytes,
      .coefficient_count = checkpoint.momentum.size(),
      .blob_count = static_cast<uint32_t>(checkpoint.blobs.size()),
      .name_bytes = static_cast<uint32_t>(checkpoint.name.size()),
      .node = checkpoint.node,
      .write = checkpoint.write,
      .body_bytes = encoded.bytes - kCheckpointHeaderBytes,
      .body_hash = hash.Digest(),
  };
  std::ranges::copy(Encode(header), encoded.front.begin());
  return encoded;
}

CheckpointShape ShapeOf(const Layout& layout) {
  return {.layout_hash = layout.hash(),
          .coefficient_count = layout.coefficient_count(),
          .segment_count = static_cast<uint32_t>(layout.segments().size())};
}

absl::StatusOr<CheckpointHead> DecodeCheckpointHead(std::span<const std::byte> bytes) {
  LONGWAVE_ASSIGN_OR_RETURN(const Header header, DecodeHeader(bytes));
  // Between two rounds the residual still has the next round's part.
  const bool is_between_rounds = header.push_count == 0 && header.fragment == 0;
  return CheckpointHead{.accounted_rounds = header.round + (is_between_rounds ? 0 : 1),
                        .file_bytes = kCheckpointHeaderBytes + header.body_bytes};
}

absl::StatusOr<Checkpoint> DecodeCheckpoint(const Buffer& file, const CheckpointShape& shape) {
  LONGWAVE_ASSIGN_OR_RETURN(const Header header, DecodeHeader(file.bytes()));
  LONGWAVE_RETURN_IF_ERROR(CheckFits(header, shape));
  const std::span<const std::byte> body = file.bytes().subspan(kCheckpointHeaderBytes);
  if (body.size() != header.body_bytes) {
    return Damaged(
        absl::StrCat("got ", body.size(), " bytes after the header, wanted ", header.body_bytes));
  }
  if (HashContent(body) != header.body_hash) return Damaged("the hash is not that of its bytes");

  Checkpoint checkpoint{.run = header.run,
                        .layout_hash = header.layout_hash,
                        .worker = header.worker,
                        .round = header.round,
                        .fragment = header.fragment,
                        .step = header.step,
                        .tokens = header.tokens,
                        .seconds_computing = header.seconds_computing,
                        .seconds_syncing = header.seconds_syncing,
                        .bytes = header.bytes,
                        .node = header.node,
                        .write = header.write};
  ByteReader in(body);
  checkpoint.name = in.GetText(header.name_bytes);
  in.Align();
  for (uint32_t s = 0; s < shape.segment_count && in.ok(); ++s) {
    checkpoint.accounted.push_back(in.Get<uint32_t>());
  }
  in.Align();
  std::vector<uint64_t> sizes;
  for (uint32_t i = 0; i < header.push_count && in.ok(); ++i) {
    UnsettledPush push;
    push.segment = in.Get<uint32_t>();
    push.norm = in.Get<float>();
    push.weight = in.Get<uint64_t>();
    sizes.push_back(in.Get<uint64_t>());
    const bool in_order = i == 0 || checkpoint.pushes.back().segment < push.segment;
    if (!in_order || push.segment >= shape.segment_count || !std::isfinite(push.norm) ||
        sizes.back() > kPayloadBytesMax) {
      return Damaged(absl::StrCat("push ", i, " of segment ", push.segment,
                                  " is one that nobody could have posted"));
    }
    checkpoint.pushes.push_back(std::move(push));
  }
  std::vector<uint64_t> blob_sizes;
  for (uint32_t i = 0; i < header.blob_count && in.ok(); ++i) {
    blob_sizes.push_back(in.Get<uint64_t>());
    checkpoint.blobs.push_back({.name = std::string(in.GetText(in.Get<uint32_t>())), .bytes = {}});
    in.Align();
  }
  if (const absl::Status blobs = CheckBlobs(checkpoint.blobs); in.ok() && !blobs.ok())
    return DataLoss(blobs.message());
  checkpoint.momentum = GetFloats(in, header.coefficient_count);
  // Blobs and payloads keep the file's bytes alive.
  const auto owner = std::make_shared<const Buffer>(file);
  for (size_t i = 0; i < checkpoint.blobs.size(); ++i) {
    checkpoint.blobs[i].bytes = Buffer(in.GetBytes(blob_sizes[i]), owner);
    in.Align();
  }
  for (size_t i = 0; i < checkpoint.pushes.size(); ++i) {
    checkpoint.pushes[i].payload = Buffer(in.GetBytes(sizes[i]), owner);
    in.Align();
  }
  if (!in.done()) return Damaged("its parts are not as long as the file");
  return checkpoint;
}

}  // namespace longwave
