// Export, Restore and Replay: the aggregator's durable state.

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/shard/aggregator.h"
#include "server/shard/aggregator_checks.h"

namespace longwave {
namespace {

std::string Workers(const std::vector<Contributor>& contributors) {
  if (contributors.empty()) return "nobody";
  std::string text = "workers";
  for (const Contributor& contributor : contributors) {
    absl::StrAppend(&text, " ", contributor.worker);
  }
  return text;
}

std::string HeaderText(const MergedFrame& header) {
  return absl::StrFormat("weight %d, norm %.9g, %d contributions, %d bytes with CRC %08x",
                         header.weight, header.norm, header.contributions, header.payload_bytes,
                         header.payload_crc);
}

absl::Status Loss(const FrameName& frame, const auto&... what) {
  return DataLoss("log: ", Name(frame.kind), " of ", PlaceOf(frame), ": ", what...);
}

// Compares the contributors before anything is merged.
absl::Status CheckContributors(const MergedRecord& wanted, const std::vector<Contributor>& got) {
  const bool same_workers =
      std::equal(got.begin(), got.end(), wanted.contributors.begin(), wanted.contributors.end(),
                 [](const Contributor& a, const Contributor& b) { return a.worker == b.worker; });
  if (!same_workers) {
    return Loss(wanted.header, "merges ", Workers(wanted.contributors),
                ", while pushes are there of ", Workers(got));
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const Contributor& recorded = wanted.contributors[i];
    if (got[i].weight != recorded.weight) {
      return Loss(wanted.header, "worker ", recorded.worker, " with weight ", recorded.weight,
                  ", pushed with ", got[i].weight);
    }
    if (got[i].crc != recorded.crc) {
      return Loss(wanted.header,
                  absl::StrFormat("worker %d with a payload of CRC %08x, pushed %08x",
                                  recorded.worker, recorded.crc, got[i].crc));
    }
    if (got[i].factor != recorded.factor) {
      return Loss(wanted.header,
                  absl::StrFormat("worker %d with factor %.17g, the norms give %.17g",
                                  recorded.worker, recorded.factor, got[i].factor));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMerged(const MergedRecord& wanted, const MergedRecord& got) {
  const auto recorded = wanted.payload.bytes();
  const auto merged = got.payload.bytes();
  const auto [at, _] = std::ranges::mismatch(recorded, merged);
  if (recorded.size() != merged.size() || at != recorded.end()) {
    return Loss(wanted.header, "its pushes give another update: ", merged.size(),
                " bytes, recorded ", recorded.size(), ", which differ from byte ",
                at - recorded.begin());
  }
  MergedFrame header = got.header;
  header.epoch = wanted.header.epoch;  // any epoch does
  if (header != wanted.header) {
    return Loss(wanted.header, "its pushes give ", HeaderText(header), ", recorded ",
                HeaderText(wanted.header));
  }
  if (got.residual_hash != wanted.residual_hash) {
    return Loss(wanted.header, absl::StrFormat("leaves E with hash %016x, recorded %016x",
                                               got.residual_hash, wanted.residual_hash));
  }
  return absl::OkStatus();
}

}  // namespace

SegmentSnapshot Aggregator::Export(uint32_t segment) const {
  const SegmentRounds& state = StateOf(segment);
  SegmentSnapshot snapshot{
      .open_round = state.open_round, .residual = state.residual, .closed = state.closed};
  // Pushes to the open round are in the log.
  for (const auto& [worker, round] : state.newest) {
    if (round < state.open_round) snapshot.newest[worker] = round;
  }
  return snapshot;
}

absl::Status Aggregator::CheckSnapshot(uint32_t segment, const SegmentSnapshot& snapshot) const {
  const auto error = [&](absl::string_view what) {
    return InvalidArgument("state of segment ", segment, " before round ", snapshot.open_round,
                           ": ", what);
  };
  if (!OwnsSegment(segment)) {
    return error(absl::StrCat("wanted a segment of shard ", options_.shard, ", ", first_segment_,
                              " to ", first_segment_ + segments_.size() - 1));
  }
  const SegmentRounds& state = StateOf(segment);
  const bool opens_anew = snapshot.residual.empty() && !snapshot.closed.has_value();
  if (snapshot.residual.size() != state.residual.size() && !opens_anew) {
    return error(absl::StrCat("E of ", snapshot.residual.size(), " coefficients, wanted ",
                              state.residual.size()));
  }
  if (!snapshot.closed.has_value()) return absl::OkStatus();

  const ClosedSegment& closed = *snapshot.closed;
  const MergedFrame& header = closed.header;
  if (header.run != options_.run || header.segment != segment ||
      uint64_t{header.round} + 1 != snapshot.open_round) {
    return error(absl::StrFormat(
        "its update is of run %016x, round %d, segment %d, wanted run %016x and the round before",
        header.run, header.round, header.segment, options_.run));
  }
  const auto& workers = closed.contributors;
  if (workers.size() != header.contributions ||
      std::ranges::adjacent_find(workers, std::greater_equal<>(), &ClosedSegment::Push::worker) !=
          workers.end()) {
    return error("the update's contributors are not those that it counts, ascending");
  }
  const std::span<const std::byte> payload = closed.payload.bytes();
  absl::Status fits = VerifyPayload(header, payload);
  if (fits.ok()) {
    const auto format = DecodePayloadHead(payload);
    fits = format.status();
    if (format.ok()) {
      const auto layout = PayloadLayout::Create(*format, state.tile_sizes);
      fits = layout.ok() ? ValidatePayload(*layout, payload) : layout.status();
    }
  }
  return fits.ok() ? fits : error(absl::StrCat("its update: ", fits.message()));
}

void Aggregator::AwaitRestore(uint32_t segment) {
  HoldOpen(segment, true);
  StateOf(segment).awaits_restore = true;
}

void Aggregator::HoldOpen(uint32_t segment, bool holds) {
  SegmentRounds& state = StateOf(segment);
  state.is_held_open = holds;
  SetQuorumAt(state, absl::InfiniteFuture());
  restored_ = true;  // the next TimePassed closes what is complete
}

absl::Status Aggregator::Restore(uint32_t segment, SegmentSnapshot snapshot) {
  LONGWAVE_RETURN_IF_ERROR(CheckSnapshot(segment, snapshot));
  SegmentRounds& state = StateOf(segment);
  state.awaits_restore = state.is_held_open = false;
  state.open_round = snapshot.open_round;
  state.closed = std::move(snapshot.closed);
  for (const auto& [worker, round] : snapshot.newest) state.newest[worker] = round;
  if (state.closed) {
    for (const ClosedSegment::Push& push : state.closed->contributors) {
      state.newest[push.worker] = state.closed->header.round;
    }
  }
  if (snapshot.residual.empty()) {
    std::ranges::fill(state.residual, 0.0f);
  } else {
    state.residual = std::move(snapshot.residual);
  }
  open_bytes_ -= state.open_bytes;
  state.open_bytes = 0;
  state.accepted.clear();
  state.strangers = 0;
  state.missed.clear();
  SetQuorumAt(state, absl::InfiniteFuture());
  state.closed_quorum_at = absl::InfiniteFuture();
  restored_ = true;
  return absl::OkStatus();
}

absl::Status Aggregator::RestoreAnew(uint32_t segment, uint32_t round) {
  return Restore(segment, {.open_round = round, .newest = Export(segment).newest});
}

absl::Status Aggregator::Replay(const LogRecord& record) {
  restored_ = true;
  if (const auto* push = std::get_if<PushRecord>(&record)) return ReplayPush(*push);
  if (const auto* merged = std::get_if<MergedRecord>(&record)) return ReplayMerged(*merged);
  if (const auto* restored = std::get_if<RestoredRecord>(&record)) {
    if (OwnsSegment(restored->segment)) return RestoreAnew(restored->segment, restored->round);
    return DataLoss("log: restored segment ", restored->segment, ", which is another shard's");
  }
  if (const auto* told = std::get_if<MembershipRecord>(&record)) {
    if (told->membership.epoch > membership_.epoch) SetMembership(told->membership);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Aggregator::IsOfTheOpenRound(const FrameName& frame) const {
  if (std::string reason = Misaddressed(frame); !reason.empty()) {
    return InvalidArgument("log: ", reason);
  }
  const uint32_t open_round = StateOf(frame.segment).open_round;
  if (frame.round <= open_round) return frame.round == open_round;
  return Loss(frame, "nothing before it closes round ", open_round);
}

absl::Status Aggregator::ReplayPush(const PushRecord& record) {
  const PushFrame& header = record.header;
  LONGWAVE_ASSIGN_OR_RETURN(const bool is_open, IsOfTheOpenRound(header));
  SegmentRounds& segment = StateOf(header.segment);
  if (!is_open) {
    uint32_t& newest = segment.newest.try_emplace(header.worker, header.round).first->second;
    newest = std::max(newest, header.round);
    return absl::OkStatus();
  }
  if (segment.accepted.contains(header.worker)) {
    return Loss(header, "worker ", header.worker, " is accepted for a second time");
  }
  if (header.weight < 1 || header.weight > options_.weight_max) {
    return Loss(header, "weight ", header.weight, ", wanted 1 to ", options_.weight_max);
  }
  // The shard took it under the configuration of its time, whose codec may have been another.
  PayloadFormat any_codec = options_.up;
  any_codec.codec = ValueCodec::kFp32;
  auto layout =
      CheckPushPayload(any_codec, segment.tile_sizes, record.payload.bytes(), segment.formats);
  if (!layout.ok()) return Loss(header, layout.status().message());
  Accept(segment, header, *std::move(layout), record.payload);
  segment.strangers += !IsDue(header.worker, header.round);
  return absl::OkStatus();
}

absl::Status Aggregator::ReplayMerged(const MergedRecord& record) {
  const MergedFrame& header = record.header;
  LONGWAVE_ASSIGN_OR_RETURN(const bool is_open, IsOfTheOpenRound(header));
  if (!is_open) return absl::OkStatus();
  SegmentRounds& segment = StateOf(header.segment);
  std::vector<Contributor> contributors = OpenContributors(segment);
  LONGWAVE_RETURN_IF_ERROR(CheckContributors(record, contributors));
  if (contributors.empty()) return Loss(header, "merges nothing");
  const MergedRecord again = Merge(segment, std::move(contributors), true);
  LONGWAVE_RETURN_IF_ERROR(CheckMerged(record, again));
  OpenNext(segment, record);
  return absl::OkStatus();
}

}  // namespace longwave
