#include "tests/intruder/hostile_frames.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/layout/segment_elements.h"
#include "common/wire/crc32c.h"
#include "common/wire/elias_fano.h"
#include "common/wire/payload.h"
#include "common/wire/snapshot_payload.h"
#include "common/wire/square_sum.h"
#include "tests/support/tcp_client.h"

namespace longwave {
namespace {

constexpr size_t kLinesMax = 6;

template <typename T>
void Put(std::span<std::byte> bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::string Text(std::string_view text) { return std::string(text); }

// A tile's coefficients, with indices and values that no model has.
void FillTile(const PayloadLayout& form, uint32_t tile, float size, std::span<std::byte> bytes,
              Rng& rng) {
  const uint32_t sent = form.sent_count(tile), elements = form.tile_size(tile);
  const TileOffsets& at = form.offsets(tile);
  const ValueCodec codec = form.format().codec;
  if (form.format().selection == Selection::kTopK) {
    std::vector<uint16_t> indices;
    for (uint32_t i = 0, left = sent; left > 0; ++i) {
      if (rng.Below(elements - i) >= left) continue;
      indices.push_back(static_cast<uint16_t>(i));
      --left;
    }
    EliasFanoEncode(elements, indices, bytes.subspan(at.indices, EliasFanoBytes(elements, sent)));
  }
  const auto value = [&] { return OneIn(rng, 2) ? size : -size; };
  if (codec == ValueCodec::kFp32 || codec == ValueCodec::kBf16) {
    for (uint32_t i = 0; i < sent; ++i) {
      const auto bits = std::bit_cast<uint32_t>(value());
      if (codec == ValueCodec::kFp32) Put(bytes, at.values + 4 * i, bits);
      if (codec == ValueCodec::kBf16)
        Put(bytes, at.values + 2 * i, static_cast<uint16_t>(bits >> 16));
    }
    return;
  }
  // The float's bits without the sign and the last 15.
  const auto scale = static_cast<uint16_t>(std::bit_cast<uint32_t>(std::fabs(size)) >> 15);
  Put(bytes, at.scale, scale);
  if (scale == 0) return;
  const uint64_t bits = uint64_t{sent} * ValueBits(codec);
  for (uint64_t i = 0; i < bits; ++i) {
    if (OneIn(rng, 2)) bytes[at.values + i / 8] |= static_cast<std::byte>(1 << i % 8);
  }
}

}  // namespace

HostileFrames::HostileFrames(const Guest* guest, Beliefs* beliefs, Rng* rng)
    : guest_(guest), beliefs_(beliefs), rng_(rng), open_rounds_(guest->layout.segments().size()) {}

void HostileFrames::Act() {
  Line* const line = SomeLine();
  if (line == nullptr) return;
  if (line->reads) ReceiveAll(*line);
  const uint64_t what = rng_->Below(100);
  if (what < 15) return SendRound(*line);
  if (what < 18) return SendParts(*line);
  if (what < 19) return SendStrangeBytes(*line);
  SendFrame(*line);
}

HostileFrames::Line* HostileFrames::SomeLine() {
  if (beliefs_->shards.empty()) return nullptr;
  if (!lines_.empty() && OneIn(*rng_, 300)) {
    lines_.erase(lines_.begin() + static_cast<ptrdiff_t>(rng_->Below(lines_.size())));
  }
  if (lines_.size() < kLinesMax && OneIn(*rng_, 10)) {
    const ShardAddress& shard = OneOf(*rng_, beliefs_->shards);
    auto dealer = Dealer::Connect(shard.data_endpoint, {.keys = guest_->keys});
    if (dealer.ok()) {
      lines_.push_back({shard.shard, !OneIn(*rng_, 4), *std::move(dealer)});
      Send(lines_.back(), Header(FrameKind::kHello, kNoSegment), Buffer());
    }
  }
  return lines_.empty() ? nullptr : &lines_[rng_->Below(lines_.size())];
}

void HostileFrames::ReceiveAll(Line& line) {
  for (int i = 0; i < 64; ++i) {
    const auto received = line.dealer->Receive(absl::ZeroDuration());
    if (!received.ok() || !received->has_value()) return;
    const FrameHeader& header = (*received)->header;
    const FrameName name = header;
    const bool is_of_segment = name.segment < open_rounds_.size();
    if (const auto* answer = std::get_if<AnswerFrame>(&header)) {
      ++counts_[absl::StrCat(Text(Name(answer->to)), " ", Text(Name(answer->outcome)))];
      if (is_of_segment) open_rounds_[name.segment] = answer->open_round;
    } else if (const auto* welcome = std::get_if<WelcomeFrame>(&header)) {
      ++counts_[absl::StrCat("hello ", Text(Name(welcome->outcome)))];
    } else {
      ++counts_[absl::StrCat("got ", Text(Name(name.kind)))];
      if (name.kind == FrameKind::kMerged && is_of_segment)
        open_rounds_[name.segment] = name.round + 1;
      // An answer to the shard's request.
      if (name.kind == FrameKind::kRequest && is_of_segment) {
        const SnapshotFrame answer{.run = beliefs_->run,
                                   .round = name.round,
                                   .worker = beliefs_->worker,
                                   .segment = name.segment};
        Send(line, answer, Snapshot(name.segment));
      }
    }
  }
}

void HostileFrames::SendFrame(Line& line) {
  const auto kind = static_cast<FrameKind>(1 + rng_->Below(8));
  const bool is_hello = kind == FrameKind::kHello;
  const uint32_t segment = is_hello ? kNoSegment : SegmentOf(line.shard);
  FrameHeader header = Header(kind, segment);
  Buffer payload;
  if (auto* push = std::get_if<PushFrame>(&header)) payload = Payload(segment, &push->norm);
  if (auto* merged = std::get_if<MergedFrame>(&header); merged != nullptr && OneIn(*rng_, 2))
    payload = Payload(segment, &merged->norm);
  if (kind == FrameKind::kSnapshot) payload = Snapshot(segment);
  if (auto* fetch = std::get_if<FetchFrame>(&header))
    fetch->round = static_cast<uint32_t>(rng_->Below(fetch->round + 1));
  const uint64_t mutations = OneIn(*rng_, 3) ? 0 : 1 + rng_->Below(2);
  if (OneIn(*rng_, 4)) {
    std::string bytes(reinterpret_cast<const char*>(payload.bytes().data()), payload.size());
    if (OneIn(*rng_, 8)) bytes = OddText(*rng_);
    Damage(&bytes, *rng_);
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    payload = Buffer(std::vector<std::byte>(begin, begin + bytes.size()));
  }
  Send(line, header, std::move(payload), mutations);
}

void HostileFrames::SendRound(Line& line) {
  for (uint32_t i = 0; i < open_rounds_.size(); ++i) {
    if (guest_->layout.segments()[i].shard != line.shard) continue;
    auto header = std::get<PushFrame>(Header(FrameKind::kPush, i));
    Buffer payload = Payload(i, &header.norm);
    Send(line, header, std::move(payload));
  }
}

void HostileFrames::SendParts(Line& line) {
  auto& raw = raw_[line.shard];
  if (raw == nullptr || OneIn(*rng_, 100)) {
    for (const ShardAddress& shard : beliefs_->shards) {
      const auto to = SplitKey(shard.data_endpoint);
      if (shard.shard == line.shard && to.ok())
        raw = std::make_unique<RawDealer>(*to, guest_->keys);
    }
    if (raw == nullptr) return;
  }
  const auto sealed = Seal(Header(FrameKind::kPush, SegmentOf(line.shard)), Buffer());
  std::string head(reinterpret_cast<const char*>(sealed->head().data()), sealed->head().size());
  // A kind, length, checksum or version that is none, under a right header CRC.
  if (OneIn(*rng_, 2)) {
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(head.data()), head.size());
    if (OneIn(*rng_, 3)) Put(bytes, 6, static_cast<uint8_t>(rng_->Next()));
    if (OneIn(*rng_, 2)) Put(bytes, 4 * rng_->Below(15), Odd32(*rng_, *beliefs_));
    Put(bytes, 60, Crc32c(bytes.first(60)));
  }
  std::vector<std::string> parts;
  for (uint64_t i = rng_->Below(5); i > 0; --i) {
    std::string part = OneIn(*rng_, 2) ? head : OddText(*rng_);
    if (OneIn(*rng_, 4)) Damage(&part, *rng_);
    parts.push_back(std::move(part));
  }
  if (OneIn(*rng_, 200)) parts.push_back(std::string((64 << 20) + 1, 'x'));
  if (!parts.empty() && OneIn(*rng_, 2)) parts.front() = head;
  ++counts_["sent parts"];
  raw->Send(parts);
}

void HostileFrames::SendStrangeBytes(const Line& line) {
  for (const ShardAddress& shard : beliefs_->shards) {
    if (shard.shard != line.shard) continue;
    const std::string& address = OneIn(*rng_, 2) ? shard.data_endpoint : shard.control_endpoint;
    const int fd = ConnectTo(address);
    if (fd < 0) return;
    std::string bytes =
        OneOf(*rng_, std::vector<std::string>{ZmtpGreeting("NULL"), ForgedHello(),
                                              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", OddText(*rng_)});
    if (OneIn(*rng_, 2)) Damage(&bytes, *rng_);
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
    ++counts_["sent strange bytes"];
  }
}

FrameHeader HostileFrames::Header(FrameKind kind, uint32_t segment) const {
  const auto right = [&](auto frame) -> FrameHeader {
    frame.run = beliefs_->run;
    if constexpr (requires { frame.worker; }) frame.worker = beliefs_->worker;
    if constexpr (requires { frame.epoch; }) frame.epoch = beliefs_->epoch;
    if constexpr (requires { frame.segment; }) {
      frame.segment = segment;
      frame.round = segment < open_rounds_.size() ? open_rounds_[segment] : beliefs_->round;
    }
    return frame;
  };
  const RunConfig& config = guest_->config;
  switch (kind) {
    case FrameKind::kHello:
      return right(HelloFrame());
    case FrameKind::kPush:
      return right(PushFrame{.weight = uint64_t{config.train.batch} * config.model.context *
                                       config.sync.inner_steps});
    case FrameKind::kAnswer:
      return right(AnswerFrame{.outcome = Outcome::kAccepted});
    case FrameKind::kMerged:
      return right(MergedFrame());
    case FrameKind::kPull:
      return right(PullFrame());
    case FrameKind::kFetch:
      return right(FetchFrame());
    case FrameKind::kSnapshot:
      return right(SnapshotFrame());
    case FrameKind::kRequest:
      break;
  }
  return right(RequestFrame());
}

void HostileFrames::Mutate(std::span<std::byte, kFrameHeaderBytes> head) {
  const auto number = [&] { return Odd32(*rng_, *beliefs_); };
  switch (const uint64_t field = rng_->Below(12)) {
    case 0:  // kind
      return Put(head, 6, static_cast<uint8_t>(1 + rng_->Below(8)));
    case 1:  // outcome
      return Put(head, 7, static_cast<uint8_t>(rng_->Below(10)));
    case 2:  // run
      return Put(head, 8, Odd64(*rng_, *beliefs_));
    case 3:  // epoch
      return Put(head, 16, number());
    case 4:
    case 5:  // round
      return Put(head, 20, number());
    case 6:  // worker
    case 7:  // segment
      return Put(head, field == 6 ? 24 : 28, number());
    case 8:
    case 9:  // weight, incarnation, open round
      return Put(head, 32, Odd64(*rng_, *beliefs_));
    case 10:  // norm
      return Put(head, 40, static_cast<float>(OddDouble(*rng_)));
    default:
      Put(head, 44, number());
      if (OneIn(*rng_, 2)) Put(head, 56, number());
  }
}

Buffer HostileFrames::Payload(uint32_t segment, float* norm) {
  PayloadFormat format = guest_->config.sync.up;
  if (OneIn(*rng_, 3)) format.codec = static_cast<ValueCodec>(rng_->Below(6));
  if (OneIn(*rng_, 6)) format.k = static_cast<uint16_t>(1 + rng_->Below(kTileSizeMax));
  if (OneIn(*rng_, 12)) format.selection = static_cast<Selection>(rng_->Below(4));
  const auto form = PayloadLayout::Create(format, guest_->layout.TileSizes(segment));
  if (!form.ok()) return Buffer();
  static const std::vector<float> kSizes = {1e-4f, 1e-3f, 1e-2f, 0.0f,     1e-40f, 1e4f,
                                            1e19f, 1e30f, 3e38f, INFINITY, NAN};
  // More often than not of an ordinary size.
  const float size = OneIn(*rng_, 2) ? kSizes[rng_->Below(3)] : OneOf(*rng_, kSizes);
  std::vector<std::byte> bytes(form->bytes());
  BeginPayload(*form, bytes);
  for (uint32_t tile = 0; tile < form->tile_count(); ++tile) {
    FillTile(*form, tile, size, bytes, *rng_);
  }
  *norm = static_cast<float>(std::sqrt(PayloadSquareSum(*form, bytes)));
  if (!std::isfinite(*norm)) *norm = 3e38f;
  return Buffer(std::move(bytes));
}

Buffer HostileFrames::Snapshot(uint32_t segment) {
  if (segment >= guest_->layout.segments().size()) return Buffer();
  uint64_t elements = ElementCount(SegmentElements(guest_->layout, segment));
  if (OneIn(*rng_, 4)) elements = 1 + rng_->Below(10'000);
  const std::vector<float> array(elements, static_cast<float>(OddDouble(*rng_)));
  const std::vector<std::span<const float>> arrays(1 + rng_->Below(2), array);
  return EncodeSnapshotPayload(arrays);
}

void HostileFrames::Send(Line& line, const FrameHeader& header, Buffer payload,
                         uint64_t mutations) {
  ++counts_[absl::StrCat("sent ", Text(Name(header.kind())))];
  // A push may have a payload. Its header is then replaced, since other kinds may not.
  auto sealed = Seal(PushFrame(), std::move(payload));
  if (!sealed.ok()) return;
  const std::span<std::byte, kFrameHeaderBytes> head(const_cast<std::byte*>(sealed->head().data()),
                                                     kFrameHeaderBytes);
  const auto& of_payload = std::get<PushFrame>(sealed->header());
  EncodeFrameHeader(header, head);
  Put(head, 48, of_payload.payload_bytes);
  Put(head, 52, of_payload.payload_crc);
  for (; mutations > 0; --mutations) Mutate(head);
  Put(head, 60, Crc32c(head.first(60)));
  line.dealer->Send(*sealed).IgnoreError();
}

uint32_t HostileFrames::SegmentOf(uint32_t shard) {
  while (true) {  // each shard has segments
    const auto segment = static_cast<uint32_t>(rng_->Below(open_rounds_.size()));
    if (guest_->layout.segments()[segment].shard == shard || OneIn(*rng_, 20)) return segment;
  }
}

}  // namespace longwave
