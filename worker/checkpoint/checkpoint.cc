#include "worker/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/field_codec.h"
#include "common/wire/frame.h"
#include "server/store/snapshot_format.h"

namespace longwave {
namespace {

// Versions 1 and 2 stored the optimizer's arrays outside of blobs.
constexpr uint32_t kMagicBeforeBlobs = 0x3143574c;  // "LWC1"

// The header's own fields, which describe the rest of the file.
struct Body {
  uint32_t push_count, blob_count, name_bytes;
  uint64_t coefficient_count, bytes, hash;
};

// The header's fields between `ranks` and its hash, in their order.
void HeaderFields(auto& checkpoint, auto& body, auto& code) {
  code(checkpoint.run, checkpoint.layout_hash, checkpoint.worker, checkpoint.round,
       checkpoint.fragment, body.push_count, checkpoint.step, checkpoint.tokens,
       checkpoint.seconds_computing, checkpoint.seconds_syncing, checkpoint.bytes,
       body.coefficient_count, body.blob_count, body.name_bytes, checkpoint.write, body.bytes,
       body.hash);
}

std::vector<std::byte> EncodeHeader(const Checkpoint& checkpoint, const Body& body) {
  FieldWriter out;
  const NodeRank node = checkpoint.node.is_alone() ? NodeRank{0, 0} : checkpoint.node;
  out(kCheckpointMagic, kCheckpointVersion, static_cast<uint8_t>(node.rank),
      static_cast<uint8_t>(node.ranks));
  HeaderFields(checkpoint, body, out);
  out(HashContent(out.bytes()));
  LONGWAVE_CHECK(out.bytes().size() == kCheckpointHeaderBytes);
  return out.Take();
}

absl::Status Damaged(const auto&... what) { return DataLoss("checkpoint: ", what...); }

absl::Status OfVersion(uint16_t version) {
  return FailedPrecondition(
      "checkpoint: got version ", version, ", wanted ", kCheckpointVersion,
      ": another release of Longwave wrote it; finish the run with that release, or "
      "move the file away: the worker then comes back without its optimizer's state "
      "and without the residual that it had not sent yet");
}

bool IsCount(double value) { return std::isfinite(value) && value >= 0; }

// A file's header: the body, and the checkpoint's fields that are not in it.
struct Header {
  Checkpoint checkpoint;
  Body body;
};

absl::StatusOr<Header> DecodeHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kCheckpointHeaderBytes) {
    return Damaged("got ", bytes.size(), " bytes, wanted at least ", kCheckpointHeaderBytes);
  }
  bytes = bytes.first(kCheckpointHeaderBytes);
  FieldReader in(bytes);
  const auto magic = in.Get<uint32_t>();
  const auto version = in.Get<uint16_t>();
  if (magic != kCheckpointMagic && magic != kMagicBeforeBlobs) {
    return InvalidArgument("checkpoint: the file does not begin as one");
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
  if (!node.ok()) return Damaged("got rank ", rank, " of ", ranks);
  Checkpoint& checkpoint = header.checkpoint;
  checkpoint.node = *node;
  HeaderFields(checkpoint, header.body, in);
  if (!IsCount(checkpoint.seconds_computing) || !IsCount(checkpoint.seconds_syncing)) {
    return Damaged("a number of the header is not finite or below zero");
  }
  if (header.body.bytes > kCheckpointFileBytesMax - kCheckpointHeaderBytes) {
    return Damaged("got ", header.body.bytes, " bytes after the header, wanted at most ",
                   kCheckpointFileBytesMax - kCheckpointHeaderBytes);
  }
  return header;
}

absl::Status CheckFits(const Header& header, const CheckpointShape& shape) {
  if (header.checkpoint.layout_hash != shape.layout_hash) {
    return NotFound("checkpoint: of a model that is cut in another way than this one");
  }
  // A part's number is checked where the parts are put together.
  const Body& body = header.body;
  const bool has_all = body.coefficient_count == shape.coefficient_count;
  if (header.checkpoint.node.is_alone() ? !has_all
                                        : body.coefficient_count > shape.coefficient_count) {
    return Damaged("got ", body.coefficient_count, " coefficients, wanted ",
                   shape.coefficient_count);
  }
  if (body.blob_count > kCheckpointBlobsMax) {
    return Damaged("got ", body.blob_count, " blobs, wanted at most ", kCheckpointBlobsMax);
  }
  if (body.push_count > shape.segment_count) {
    return Damaged("got ", body.push_count, " pushes, wanted at most ", shape.segment_count);
  }
  if (body.name_bytes > kCheckpointNameBytesMax) {
    return Damaged("got a name of ", body.name_bytes, " bytes, wanted at most ",
                   kCheckpointNameBytesMax);
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
    AddUnaligned(PaddingOf(out_->bytes));
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
  const Body body = {.push_count = static_cast<uint32_t>(checkpoint.pushes.size()),
                     .blob_count = static_cast<uint32_t>(checkpoint.blobs.size()),
                     .name_bytes = static_cast<uint32_t>(checkpoint.name.size()),
                     .coefficient_count = checkpoint.momentum.size(),
                     .bytes = encoded.bytes - kCheckpointHeaderBytes,
                     .hash = hash.Digest()};
  std::ranges::copy(EncodeHeader(checkpoint, body), encoded.front.begin());
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
  const Checkpoint& checkpoint = header.checkpoint;
  const bool is_between_rounds = header.body.push_count == 0 && checkpoint.fragment == 0;
  return CheckpointHead{.accounted_rounds = checkpoint.round + (is_between_rounds ? 0 : 1),
                        .file_bytes = kCheckpointHeaderBytes + header.body.bytes,
                        .write = checkpoint.write};
}

absl::StatusOr<Checkpoint> DecodeCheckpoint(const Buffer& file, const CheckpointShape& shape) {
  LONGWAVE_ASSIGN_OR_RETURN(Header header, DecodeHeader(file.bytes()));
  LONGWAVE_RETURN_IF_ERROR(CheckFits(header, shape));
  const Body& body = header.body;
  const std::span<const std::byte> bytes = file.bytes().subspan(kCheckpointHeaderBytes);
  if (bytes.size() != body.bytes) {
    return Damaged("got ", bytes.size(), " bytes after the header, wanted ", body.bytes);
  }
  if (HashContent(bytes) != body.hash) return Damaged("the hash is not that of its bytes");

  Checkpoint checkpoint = std::move(header.checkpoint);
  ByteReader in(bytes);
  checkpoint.name = in.GetText(body.name_bytes);
  in.Align();
  for (uint32_t s = 0; s < shape.segment_count && in.ok(); ++s) {
    checkpoint.accounted.push_back(in.Get<uint32_t>());
  }
  in.Align();
  std::vector<uint64_t> sizes;
  for (uint32_t i = 0; i < body.push_count && in.ok(); ++i) {
    UnsettledPush push;
    push.segment = in.Get<uint32_t>();
    push.norm = in.Get<float>();
    push.weight = in.Get<uint64_t>();
    sizes.push_back(in.Get<uint64_t>());
    const bool in_order = i == 0 || checkpoint.pushes.back().segment < push.segment;
    if (!in_order || push.segment >= shape.segment_count || !std::isfinite(push.norm) ||
        sizes.back() > kPayloadBytesMax) {
      return Damaged("push ", i, " of segment ", push.segment,
                     " is one that nobody could have posted");
    }
    checkpoint.pushes.push_back(std::move(push));
  }
  std::vector<uint64_t> blob_sizes;
  for (uint32_t i = 0; i < body.blob_count && in.ok(); ++i) {
    blob_sizes.push_back(in.Get<uint64_t>());
    checkpoint.blobs.push_back({.name = std::string(in.GetText(in.Get<uint32_t>())), .bytes = {}});
    in.Align();
  }
  if (const absl::Status blobs = CheckBlobs(checkpoint.blobs); in.ok() && !blobs.ok())
    return DataLoss(blobs.message());
  checkpoint.momentum = GetFloats(in, body.coefficient_count);
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
