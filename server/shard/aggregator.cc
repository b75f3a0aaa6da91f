#include "server/shard/aggregator.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/memory.h"
#include "common/base/status_macros.h"
#include "common/wire/square_sum.h"

namespace longwave {
namespace {

// How far a stated norm may be from the payload's, as a share of it and beyond that: far above the
// rounding of any order of summation and of denormal numbers, far below what one could gain.
constexpr double kNormTolerance = 1e-3;
constexpr double kNormToleranceBeyond = FLT_MIN;

// "worker 3, round 17, segment 2": what every refusal of a push starts with.
std::string Place(const FrameHeader& header) {
  return absl::StrCat("worker ", header.worker, ", round ", header.round, ", segment ",
                      header.segment);
}

MergeOptions MergeOptionsOf(const AggregatorOptions& options) {
  return {options.run_seed, options.up, options.rho, options.down};
}

// That every segment's payloads fit into frames, and all that the shard keeps into memory.
absl::Status CheckSegments(const AggregatorOptions& options, const Layout& layout) {
  constexpr double kTileTableBytes =
      sizeof(uint32_t) + 2 * (sizeof(TileOffsets) + sizeof(uint32_t));
  const double residual_bytes = KeepsResidual(MergeOptionsOf(options)) ? sizeof(float) : 0;
  double coefficients = 0;
  double wanted_bytes = 0;
  double round_bytes = 0;  // one push to each segment
  double largest_bytes = 0;
  for (uint32_t i = 0; i < layout.segments().size(); ++i) {
    const Segment& segment = layout.segments()[i];
    if (segment.shard != options.shard) continue;
    coefficients += static_cast<double>(segment.coefficient_count);
    wanted_bytes += static_cast<double>(segment.coefficient_count) * residual_bytes +
                    segment.tile_count * kTileTableBytes;
    const std::vector<uint32_t> tile_sizes = layout.TileSizes(i);
    double push_bytes = 0;
    // All of topk goes down as one of the last, or as topk in an integer codec, which always fits.
    for (const PayloadFormat& format :
         {options.up, options.down, PayloadFormat{Selection::kAll, options.down.codec, 0}}) {
      const auto form = PayloadLayout::Create(format, tile_sizes);
      if (!form.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("segment ", i, " as ", Describe(format), ": ", form.status().message()));
      }
      if (format == options.up) push_bytes = static_cast<double>(form->bytes());
    }
    round_bytes += push_bytes;
    largest_bytes = std::max(largest_bytes, push_bytes);
  }
  double open_bytes = options.workers * round_bytes;
  if (options.open_bytes_max > 0) {
    // The oldest segment's pushes are taken whatever the limit.
    open_bytes = std::min(
        open_bytes, static_cast<double>(options.open_bytes_max) + options.workers * largest_bytes);
  }
  wanted_bytes += open_bytes;
  if (options.available_bytes == 0 ||
      wanted_bytes <= static_cast<double>(options.available_bytes)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "shard ", options.shard, ": ", CountText(coefficients), " coefficients want about ",
      BytesText(wanted_bytes), " of memory, ", BytesText(open_bytes), " of it for open pushes; ",
      BytesText(static_cast<double>(options.available_bytes)), " are available"));
}

}  // namespace

absl::StatusOr<Aggregator> Aggregator::Create(const AggregatorOptions& options, Layout layout) {
  LONGWAVE_RETURN_IF_ERROR(Validate(MergeOptionsOf(options)));
  if (!(options.clip >= 0 && std::isfinite(options.clip))) {
    return absl::InvalidArgumentError(
        absl::StrCat("clip is ", options.clip, ", wanted 0 (off) or a multiple above it"));
  }
  const auto segments = layout.segments();
  const bool has_segment = std::any_of(segments.begin(), segments.end(),
                                       [&](const Segment& s) { return s.shard == options.shard; });
  if (!has_segment) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shard ", options.shard, " owns none of the layout's ", segments.size(), " segments over ",
        layout.options().shard_count, " shards, wanted at least one"));
  }
  LONGWAVE_RETURN_IF_ERROR(CheckSegments(options, layout));
  return Aggregator(options, std::move(layout));
}

Aggregator::Aggregator(const AggregatorOptions& options, Layout layout)
    : options_(options),
      layout_(std::make_unique<const Layout>(std::move(layout))),
      merger_(std::make_unique<Merger>(MergeOptionsOf(options), options.runner)) {
  const bool keeps_residual = KeepsResidual(MergeOptionsOf(options));
  const auto segments = layout_->segments();
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (segments[i].shard != options.shard) continue;
    if (segments_.empty()) first_segment_ = i;  // a shard's segments are one contiguous run
    SegmentState& state = segments_.emplace_back();
    state.segment = i;
    state.tile_sizes = layout_->TileSizes(i);
    if (keeps_residual) state.residual.resize(segments[i].coefficient_count);
  }
}

std::vector<AggregatorEffect> Aggregator::Step(const AggregatorEvent& event, absl::Time) {
  Effects effects;
  if (const auto* push = std::get_if<PushArrived>(&event)) OnPush(*push, effects);
  if (const auto* pull = std::get_if<PullArrived>(&event)) OnPull(pull->header, effects);
  if (const auto* change = std::get_if<MembershipChanged>(&event)) {
    OnMembership(change->membership, effects);
  }
  return effects;
}

void Aggregator::OnPush(const PushArrived& push, Effects& effects) {
  const FrameHeader& header = push.header;
  if (std::string reason = Misaddressed(header); !reason.empty()) {
    return Answer(header, Outcome::kRejected, std::move(reason), effects);
  }
  SegmentState& segment = StateOf(header.segment);
  if (header.round < segment.open_round) {
    const bool is_last = segment.closed && segment.closed->header.round == header.round;
    if (!is_last || !std::binary_search(segment.closed->contributors.begin(),
                                        segment.closed->contributors.end(), header.worker)) {
      return Answer(header, Outcome::kLate, "", effects);
    }
    Answer(header, Outcome::kDuplicate, "", effects);
    return SendAgain(segment, header.worker, effects);
  }
  if (header.round > segment.open_round) {
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("push of ", Place(header), ": wanted round ", segment.open_round,
                               ", which is open"),
                  effects);
  }
  const Member& member = *FindMember(header.worker);
  if (header.round < member.first_round) {
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("push of ", Place(header), ": wanted round ", member.first_round,
                               " or later, which the worker joins at"),
                  effects);
  }
  if (segment.accepted.contains(header.worker)) {
    return Answer(header, Outcome::kDuplicate, "", effects);
  }
  if (header.weight < 1 || header.weight > kWeightMax) {
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("push of ", Place(header), ": weight ", header.weight,
                               ", wanted 1 to ", kWeightMax),
                  effects);
  }
  if (IsBusyFor(segment, push.payload.size())) {
    return Answer(header, Outcome::kBusy, "", effects);
  }
  auto layout = CheckPayload(segment, push.payload.bytes());
  absl::Status fits = layout.status();
  if (fits.ok()) fits = CheckNorm(header.norm, **layout, push.payload.bytes());
  if (!fits.ok()) {
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("push of ", Place(header), ": ", fits.message()), effects);
  }
  segment.accepted[header.worker] = {header.weight, header.norm, *std::move(layout), push.payload};
  segment.open_bytes += push.payload.size();
  open_bytes_ += push.payload.size();
  Answer(header, Outcome::kAccepted, "", effects);
  CloseIfComplete(segment, effects);
}

void Aggregator::OnPull(const FrameHeader& header, Effects& effects) {
  if (std::string reason = Misaddressed(header); !reason.empty()) {
    return Answer(header, Outcome::kRejected, std::move(reason), effects);
  }
  const SegmentState& segment = StateOf(header.segment);
  if (header.round > segment.open_round) {
    return Answer(header, Outcome::kRejected,
                  absl::StrCat("pull of ", Place(header), ": wanted round ", segment.open_round,
                               " or the one before"),
                  effects);
  }
  if (header.round == segment.open_round) return;
  if (segment.closed && segment.closed->header.round == header.round) {
    return SendAgain(segment, header.worker, effects);
  }
  Answer(header, Outcome::kRejected,
         absl::StrCat("pull of ", Place(header), ": wanted round ", segment.open_round - 1,
                      " or later: nothing older is kept"),
         effects);
}

void Aggregator::OnMembership(const Membership& membership, Effects& effects) {
  if (membership.epoch <= membership_.epoch) return;  // one that was overtaken on its way
  membership_ = membership;
  member_places_.clear();
  first_rounds_.clear();
  for (const Member& member : membership_.members) {
    member_places_.emplace(member.worker, static_cast<uint32_t>(member_places_.size()));
    first_rounds_.push_back(member.first_round);
  }
  std::sort(first_rounds_.begin(), first_rounds_.end());
  for (SegmentState& segment : segments_) CloseIfComplete(segment, effects);
}

void Aggregator::Answer(const FrameHeader& header, Outcome outcome, std::string reason,
                        Effects& effects) {
  if (header.kind == FrameKind::kPush) {
    counts_.pushes_accepted += outcome == Outcome::kAccepted;
    counts_.pushes_duplicate += outcome == Outcome::kDuplicate;
    counts_.pushes_late += outcome == Outcome::kLate;
    counts_.pushes_rejected += outcome == Outcome::kRejected;
    counts_.pushes_busy += outcome == Outcome::kBusy;
  }
  FrameHeader answer;
  answer.kind = FrameKind::kAnswer;
  answer.outcome = outcome;
  answer.run = options_.run;
  answer.epoch = membership_.epoch;
  answer.round = header.round;
  answer.worker = header.worker;
  answer.segment = header.segment;
  effects.push_back(AnswerPush{answer, std::move(reason)});
}

void Aggregator::SendAgain(const SegmentState& segment, uint32_t worker, Effects& effects) const {
  effects.push_back(SendMerged{{worker}, segment.closed->header, segment.closed->payload});
}

void Aggregator::CloseIfComplete(SegmentState& segment, Effects& effects) {
  if (!IsComplete(segment)) return;

  const uint32_t round = segment.open_round;
  std::vector<Contribution> contributions;
  std::vector<float> norms;
  Closed closed;
  for (const auto& [worker, push] : segment.accepted) {
    contributions.push_back({push.weight, push.layout.get(), push.payload.bytes()});
    norms.push_back(push.norm);
    closed.contributors.push_back(worker);
  }
  if (options_.clip > 0) {
    const std::vector<double> factors = ClipFactors(norms, options_.clip);
    for (size_t i = 0; i < factors.size(); ++i) {
      contributions[i].factor = factors[i];
      counts_.pushes_clipped += factors[i] < 1;
    }
  }
  MergedSegment merged =
      merger_->Merge(*layout_, segment.segment, round, contributions, segment.residual);

  closed.header.kind = FrameKind::kMerged;
  closed.header.run = options_.run;
  closed.header.epoch = membership_.epoch;
  closed.header.round = round;
  closed.header.segment = segment.segment;
  closed.header.weight = merged.weight_sum;
  closed.header.norm = static_cast<float>(std::min(std::sqrt(merged.square_sum), double{FLT_MAX}));
  closed.header.contributions = static_cast<uint32_t>(contributions.size());
  closed.header.payload_bytes = static_cast<uint32_t>(merged.payload.size());
  closed.payload = Buffer(std::move(merged.payload));

  SendMerged send{{}, closed.header, closed.payload};
  for (const Member& member : membership_.members) {
    if (member.first_round <= round) send.workers.push_back(member.worker);
  }
  segment.closed = std::move(closed);
  segment.accepted.clear();
  open_bytes_ -= segment.open_bytes;
  segment.open_bytes = 0;
  segment.open_round = round + 1;
  ++counts_.segments_closed;
  effects.push_back(std::move(send));
}

bool Aggregator::IsBusyFor(const SegmentState& segment, size_t bytes) const {
  if (options_.open_bytes_max == 0 || open_bytes_ + bytes <= options_.open_bytes_max) return false;
  const auto oldest = std::min_element(
      segments_.begin(), segments_.end(),
      [](const SegmentState& a, const SegmentState& b) { return a.open_round < b.open_round; });
  return oldest->segment != segment.segment;
}

std::string Aggregator::Misaddressed(const FrameHeader& header) const {
  const auto what = [&] {
    return absl::StrCat(std::string(Name(header.kind)), " of ", Place(header));
  };
  if (header.run != options_.run) {
    return absl::StrFormat("%s: run %016x, wanted %016x", what(), header.run, options_.run);
  }
  if (header.segment < first_segment_ || header.segment - first_segment_ >= segments_.size()) {
    return absl::StrCat(what(), ": wanted a segment of shard ", options_.shard, ", ",
                        first_segment_, " to ", first_segment_ + segments_.size() - 1);
  }
  if (FindMember(header.worker) == nullptr) {
    return absl::StrCat(what(), ": wanted one of the ", membership_.members.size(),
                        " members of epoch ", membership_.epoch);
  }
  return "";
}

absl::StatusOr<std::shared_ptr<const PayloadLayout>> Aggregator::CheckPayload(
    SegmentState& segment, std::span<const std::byte> payload) const {
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(payload));
  LONGWAVE_RETURN_IF_ERROR(CheckFormat(format));
  auto& formats = segment.formats;
  const auto known = std::find_if(formats.begin(), formats.end(),
                                  [&](const auto& form) { return form->format() == format; });
  if (known != formats.end()) {
    LONGWAVE_RETURN_IF_ERROR(ValidatePayload(**known, payload));
    return *known;
  }
  LONGWAVE_ASSIGN_OR_RETURN(PayloadLayout created,
                            PayloadLayout::Create(format, segment.tile_sizes));
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(created, payload));
  if (formats.size() >= kFormatsMax) formats.erase(formats.begin());
  formats.push_back(std::make_shared<const PayloadLayout>(std::move(created)));
  return formats.back();
}

absl::Status Aggregator::CheckFormat(const PayloadFormat& format) const {
  const PayloadFormat& up = options_.up;
  bool fits = format.selection == up.selection;
  if (up.selection != Selection::kTopK) fits = fits && format.codec == up.codec;
  if (up.selection == Selection::kRandom || up.selection == Selection::kStride) {
    fits = fits && format.k == up.k;
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("payload is ", Describe(format), ", wanted ",
                   up.selection == Selection::kTopK ? "topk in any codec" : Describe(up)));
}

absl::Status Aggregator::CheckNorm(float norm, const PayloadLayout& layout,
                                   std::span<const std::byte> payload) const {
  // Written so that no number that is not one passes.
  if (!(norm >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("norm ", norm, ", wanted 0 or more"));
  }
  if (options_.clip == 0) return absl::OkStatus();  // nothing depends on it
  const double wanted = std::sqrt(PayloadSquareSum(layout, payload));
  if (std::fabs(norm - wanted) <= kNormTolerance * wanted + kNormToleranceBeyond) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("norm ", norm, ", wanted its payload's, which is ", wanted));
}

const Member* Aggregator::FindMember(uint32_t worker) const {
  const auto place = member_places_.find(worker);
  return place == member_places_.end() ? nullptr : &membership_.members[place->second];
}

bool Aggregator::IsComplete(const SegmentState& segment) const {
  if (segment.accepted.empty()) return false;
  // Most pushes leave others missing, which their number alone tells: a push costs the same
  // however many members there are.
  const auto wanted =
      std::upper_bound(first_rounds_.begin(), first_rounds_.end(), segment.open_round) -
      first_rounds_.begin();
  return segment.accepted.size() >= static_cast<size_t>(wanted) && WaitingFor(segment).empty();
}

std::vector<uint32_t> Aggregator::WaitingFor(const SegmentState& segment) const {
  std::vector<uint32_t> workers;
  for (const Member& member : membership_.members) {
    if (member.first_round <= segment.open_round && !segment.accepted.contains(member.worker)) {
      workers.push_back(member.worker);
    }
  }
  return workers;
}

ShardState Aggregator::state() const {
  ShardState state = counts_;
  state.open_round = segments_.front().open_round;
  for (const SegmentState& segment : segments_) {
    state.open_round = std::min(state.open_round, segment.open_round);
  }
  return state;
}

std::vector<Aggregator::OpenSegment> Aggregator::OpenSegments() const {
  std::vector<OpenSegment> open;
  for (const SegmentState& segment : segments_) {
    open.push_back({segment.segment, segment.open_round, WaitingFor(segment), segment.open_bytes});
  }
  return open;
}

double Aggregator::ResidualSquareSum() const {
  double sum = 0;
  for (const SegmentState& segment : segments_) {
    for (const float e : segment.residual) sum += double{e} * double{e};
  }
  return sum;
}

}  // namespace longwave
